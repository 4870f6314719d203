#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "jobs/import_megatron.h"

namespace trireme {
namespace {

void read_activation(JobReader& job) {
  const bool is_swiglu = job.flag("--swiglu");
  const bool is_exact = job.flag("--no-bias-gelu-fusion") || job.flag("--disable-bias-linear");
  const bool is_squared = job.flag("--squared-relu");
  const std::string_view name = is_swiglu    ? "swiglu"
                                : is_squared ? "relu2"
                                : is_exact   ? "gelu_erf"
                                             : "gelu_tanh";
  job.assign("model.activation", std::string(name));
}

// Without biases and with experts a model is one of our moe; without biases it is a llama.
bool read_family(JobReader& job) {
  const bool has_experts = job.has("--num-experts");
  const bool has_bias = !job.flag("--disable-bias-linear");
  const std::string norm = job.word("--normalization").value_or("LayerNorm");
  if (has_experts && has_bias) {
    job.refuse("--num-experts", "our experts have no biases", "add --disable-bias-linear");
  }
  if (!has_bias && norm == "LayerNorm") {
    job.refuse("--disable-bias-linear", "its LayerNorm keeps a bias, ours does not",
               "use --normalization RMSNorm");
  }
  job.assign("model.family",
             std::string(has_experts ? "moe"
                         : has_bias  ? "gpt2"
                                     : "llama"),
             has_experts ? "--num-experts" : "--disable-bias-linear");
  job.assign("model.bias", has_bias, "--disable-bias-linear");
  return has_experts;
}

int64_t default_d_ff(int64_t d_model, bool is_swiglu) {
  return is_swiglu ? d_model * 4 * 2 / 3 / 64 * 64 : 4 * d_model;
}

void read_sizes(JobReader& job, bool has_experts) {
  for (const char* key : {"--num-layers", "--hidden-size", "--num-attention-heads", "--seq-length",
                          "--micro-batch-size"}) {
    job.need(key);
  }
  const int64_t dense = megatron_dense_d_ff(job);
  const auto of_expert = job.integer("--moe-ffn-hidden-size");
  if (dense > 0) {
    job.assign("model.d_ff", has_experts ? of_expert.value_or(dense) : dense,
               of_expert ? "--moe-ffn-hidden-size" : "--ffn-hidden-size");
  }
  const bool has_groups = job.flag("--group-query-attention");
  const auto groups = job.integer("--num-query-groups");
  job.assign("model.kv_heads", has_groups ? groups.value_or(1) : int64_t{0}, "--num-query-groups");
}

void read_dropout(JobReader& job) {
  const std::string dropout = job.word("--hidden-dropout").value_or("0.1");
  if (job.word("--attention-dropout").value_or("0.1") != dropout) {
    job.note("--attention-dropout differs from --hidden-dropout, which is priced for both");
  }
  if (!job.has("--hidden-dropout")) job.assign("model.dropout", 0.1);
  job.number("model.dropout", "--hidden-dropout");
}

// The table of the embedding is padded so that tp ranks have equal parts.
void read_vocabulary(JobReader& job) {
  const std::string tokenizer = job.word("--tokenizer-type").value_or("");
  constexpr int64_t kGpt2 = 50257;
  auto vocab_size = job.integer("--vocab-size");
  if (!vocab_size && tokenizer == "GPT2BPETokenizer") vocab_size = kGpt2;
  if (!vocab_size) {
    if (job.request().base.model.vocab_size == 0) {
      job.wrong("--vocab-size", "is missing, and the tokenizer is not read",
                "add it to the job, or --set model.vocab_size=N");
    }
    return;
  }
  const int64_t divisor =
      std::clamp<int64_t>(job.integer("--make-vocab-size-divisible-by").value_or(128), 0, 1 << 20);
  const int64_t unit = divisor * megatron_degree(job, "--tensor-model-parallel-size");
  // A divisor of one says that the size is as given: tp need not divide it here.
  const bool is_padded = divisor > 1;
  const bool is_sound =
      unit > 0 && unit < (1 << 24) && *vocab_size > 0 && *vocab_size < (int64_t{1} << 31);
  const int64_t padded =
      is_padded && is_sound ? (*vocab_size + unit - 1) / unit * unit : *vocab_size;
  if (padded != *vocab_size) {
    job.note(fmt::format("the vocabulary of {} is padded to {}, as Megatron-LM does", *vocab_size,
                         padded));
  }
  job.assign("model.vocab_size", padded, "--vocab-size");
}

// The part of queries and keys with positions, beside latents. Its YaRN has two numbers that
// sharpen attention: one scales the logits, and their quotient scales cos and sin.
void read_yarn(JobReader& job, const std::string& type) {
  const double factor = job.real("--rotary-scaling-factor").value_or(1.0);
  const double mscale = job.real("--mscale").value_or(1.0);
  const double of_all = job.real("--mscale-all-dim").value_or(0.0);
  if (factor == 1.0) return;
  if (type != "yarn") {
    return job.refuse("--rope-type", "positions that are scaled by a factor are YaRN's here",
                      "use yarn, or set --rotary-scaling-factor 1.0");
  }
  if (mscale != of_all) {
    return job.refuse(
        "--rotary-scaling-factor",
        fmt::format("--mscale {} and --mscale-all-dim {} differ, which scales the part of a head "
                    "with positions by a number of its own",
                    mscale, of_all),
        fmt::format("set --mscale-all-dim {}", mscale));
  }
  job.assign("model.rope_scaling", std::string("yarn"), "--rope-type");
  job.assign("model.rope_scaling_factor", factor, "--rotary-scaling-factor");
  job.assign("model.rope_mscale", mscale, "--mscale");
  job.assign("model.rope_low_freq_factor", job.real("--beta-slow").value_or(1.0), "--beta-slow");
  job.assign("model.rope_high_freq_factor", job.real("--beta-fast").value_or(32.0), "--beta-fast");
  job.assign("model.rope_original_seq_len",
             job.integer("--original-max-position-embeddings").value_or(4096),
             "--original-max-position-embeddings");
}

// The keys that a query sees before itself, and the width of a window of ours, which counts the
// query's own key. Megatron-LM writes "(127,0)".
void read_window(JobReader& job) {
  constexpr const char* kKey = "--window-size";
  const auto word = job.word(kKey);
  if (!word) return;
  std::string plain = *word;
  std::erase_if(plain,
                [](char c) { return std::string_view("()[] ").find(c) != std::string::npos; });
  const size_t comma = std::min(plain.find(','), plain.size());
  const ForeignValue before = value_of_word(plain.substr(0, comma));
  const std::string behind = comma < plain.size() ? plain.substr(comma + 1) : "";
  const auto* keys = std::get_if<int64_t>(&before);
  if (keys == nullptr || *keys < -1 || *keys > INT32_MAX || (behind != "0" && behind != "-1")) {
    return job.refuse(kKey, "a window here ends at the query itself", "write it as \"(127,0)\"");
  }
  job.assign("model.window", *keys < 0 ? int64_t{0} : *keys + 1, kKey);
}

// Latent attention. Its norms are those of the latents.
void read_latents(JobReader& job, bool has_norms) {
  if (!has_norms) job.note("the latents have norms here; the job has none without --qk-layernorm");
  job.has("--kv-channels");  // says nothing beside the widths below
  const auto width = [&](std::string_view ours, std::string_view theirs, int64_t usual) {
    job.assign(ours, job.integer(theirs).value_or(usual), theirs);
  };
  width("model.kv_lora_rank", "--kv-lora-rank", 32);
  width("model.q_lora_rank", "--q-lora-rank", 0);
  width("model.head_dim", "--qk-head-dim", 128);
  width("model.qk_rope_head_dim", "--qk-pos-emb-head-dim", 64);
  width("model.v_head_dim", "--v-head-dim", 128);
}

void read_attention(JobReader& job, bool has_latents) {
  read_window(job);
  const bool has_norms = job.flag("--qk-layernorm");
  if (has_latents) return read_latents(job, has_norms);
  const bool is_rms = job.word("--normalization").value_or("LayerNorm") == "RMSNorm";
  if (has_norms && !is_rms) {
    job.refuse("--qk-layernorm", "the norms of queries and keys are RMS norms here",
               "use --normalization RMSNorm");
  }
  job.assign("model.qk_norm", has_norms, "--qk-layernorm");
  job.assign("model.head_dim", job.integer("--kv-channels").value_or(0), "--kv-channels");
}

void read_further_tokens(JobReader& job) {
  const int64_t depth = job.integer("--mtp-num-layers").value_or(0);
  job.assign("model.mtp_depth", depth, "--mtp-num-layers");
  const double weight = job.real("--mtp-loss-scaling-factor").value_or(0.1);
  if (depth > 0) job.assign("model.mtp_loss_weight", weight, "--mtp-loss-scaling-factor");
}

// Rotary positions, stretched or not.
void read_rotary(JobReader& job, bool has_latents) {
  job.assign("model.rope_theta", job.integer("--rotary-base").value_or(10000), "--rotary-base");
  const std::string type = job.word("--rope-type").value_or(has_latents ? "yarn" : "rope");
  if (has_latents) return read_yarn(job, type);
  if (type != "rope") {
    job.refuse("--rope-type", "without latent attention its positions are not stretched by YaRN",
               "remove it");
  }
  if (!job.flag("--use-rope-scaling")) return;
  if (!job.has("--rope-scaling-factor")) job.assign("model.rope_scaling_factor", 8.0);
  job.number("model.rope_scaling_factor", "--rope-scaling-factor");
}

void read_positions(JobReader& job, bool has_latents) {
  constexpr const char* kKey = "--position-embedding-type";
  const std::string positions = job.word(kKey).value_or("learned_absolute");
  const bool has_rope =
      positions == "rope" || has_latents || job.flag("--use-rotary-position-embeddings");
  if (positions != "rope" && positions != "learned_absolute") {
    job.refuse(kKey, "we have learned and rotary positions", "use learned_absolute or rope");
  }
  job.assign("model.positions", std::string(has_rope ? "rope" : "learned"), kKey);
  if (has_rope) read_rotary(job, has_latents);
  job.has("--max-position-embeddings");
}

}  // namespace

int64_t megatron_dense_d_ff(JobReader& job) {
  const int64_t d_model = std::clamp<int64_t>(job.integer("--hidden-size").value_or(0), 0, 1 << 24);
  const int64_t usual = default_d_ff(d_model, job.flag("--swiglu"));
  return job.integer("--ffn-hidden-size").value_or(usual);
}

bool read_megatron_model(JobReader& job) {
  const bool has_experts = read_family(job);
  const bool has_latents = job.flag("--multi-latent-attention");
  read_sizes(job, has_experts);
  read_dropout(job);
  read_vocabulary(job);
  read_activation(job);
  read_positions(job, has_latents);
  read_attention(job, has_latents);
  read_further_tokens(job);
  job.rows("model.");
  return has_experts;
}

}  // namespace trireme
