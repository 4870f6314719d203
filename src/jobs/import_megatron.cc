#include <fmt/format.h>

#include <algorithm>

#include "jobs/import_forms.h"
#include "jobs/job_reader.h"
#include "jobs/layer_pattern.h"

namespace trireme {
namespace {

// Settings that ours lacks. An empty reason says that a setting is harmless although a pattern
// below would match it.
constexpr ForeignRefusal kMegatronRefusals[] = {
    {"--yaml-cfg", "", "the model is in another file", "write its settings as flags"},
    {"--use-checkpoint-args", "", "the model is in a checkpoint", "write its sizes as flags"},
    {"--use-mp-args-from-checkpoint-args", "", "degrees are in a checkpoint",
     "write them as flags"},
    {"--moe-layer-freq", "1", "a model without --num-experts has no such layers"},
    {"--moe-router-dtype", "", ""},
    {"--moe-per-layer-logging", "", ""},
    {"--moe-permute-fusion", "", ""},
    {"--moe-router-fusion", "", ""},
    {"--moe-router-force-load-balancing", "", ""},
    {"--moe-extended-tp", "", "experts are split in another way"},
    {"--ckpt-fully-parallel-*", "", ""},
    {"--fp8*", "", "products in fp8 are not priced", "price it with --bf16"},
    {"--fp4*", "", "products in fp4 are not priced", "price it with --bf16"},
    {"--mtp-num-layers", "0", "multi-token prediction is not supported"},
    {"--multi-latent-attention", "", "latent attention is not supported"},
    {"--tensor-parallel-num-weight-shards", "1", "weights are sharded in another way"},
    {"--decoder-first-pipeline-num-layers", "", "stages are split by their cost here",
     "use --pipeline-model-parallel-layout"},
    {"--decoder-last-pipeline-num-layers", "", "stages are split by their cost here",
     "use --pipeline-model-parallel-layout"},
    {"--num-layers-in-*-pipeline-stage", "", "stages are split by their cost here"},
    {"--qk-layernorm", "", "norms of queries and keys are not supported"},
    {"--add-qkv-bias", "", "biases of a part of the linear layers are not supported"},
    {"--window-size", "", "attention to a window is not supported"},
    {"--apply-layernorm-1p", "", ""},
    {"--rotary-percent", "1.0", "rotary positions of a part of a head are not supported"},
    {"--pipeline-model-parallel-comm-backend", "", ""},
    {"--overlap-*", "", ""},
    {"--no-overlap-*", "", ""},
    {"--distributed-*", "", ""},
    {"--use-precision-aware-optimizer", "", ""},
    {"--inference-*", "", ""},
    {"--rl-*", "", ""},
    {"*hybrid*", "", "layers of different kinds are not supported"},
    {"--mamba-*", "", "state-space layers are not supported"},
    {"--heterogeneous-*", "", "layers of different shapes are not supported"},
    {"--account-for-*", "0", "stages are split by their cost here"},
    {"--expert-tensor-*", "", ""},
    {"*-offload*", "", "we have no such offload"},
    {"*recompute*", "", "we have no such recomputation"},
    {"*-parallel-size", "1", "we have no such degree"},
    {"--moe-*", "", "our experts have no such setting"},
    {"*fsdp*", "", "we have no such sharding"},
    {"*-virtual-*", "", "we have no such stages"},
};

int64_t value_or(std::optional<int64_t> value, int64_t otherwise) {
  return value.value_or(otherwise);
}

// A number of ranks. Products of three of them do not overflow, whatever the job says.
int64_t degree(JobReader& job, std::string_view key) {
  return std::clamp<int64_t>(value_or(job.integer(key), 1), 0, 1 << 20);
}

void read_ranks(JobReader& job) {
  const int64_t others = degree(job, "--tensor-model-parallel-size") *
                         degree(job, "--pipeline-model-parallel-size") *
                         degree(job, "--context-parallel-size");
  if (!job.has("--nproc-per-node")) {
    const bool is_known = job.request().ranks || job.request().base.parallel.dp > 1;
    if (!is_known) {
      job.note(
          "the job does not say on how many ranks it runs: it is priced with dp = 1; give "
          "--ranks N");
    }
    return;
  }
  const int64_t ranks = degree(job, "--nnodes") * degree(job, "--nproc-per-node");
  if (others < 1 || ranks < 1 || ranks % others != 0) {
    return job.wrong("--nproc-per-node",
                     fmt::format("tensor, pipeline and context degrees of {} together must divide "
                                 "the {} ranks",
                                 others, ranks),
                     "change one of them");
  }
  job.assign("parallel.dp", ranks / others, "--nproc-per-node");
}

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

int64_t dense_d_ff(JobReader& job) {
  const int64_t d_model =
      std::clamp<int64_t>(value_or(job.integer("--hidden-size"), 0), 0, 1 << 24);
  const int64_t usual = default_d_ff(d_model, job.flag("--swiglu"));
  return value_or(job.integer("--ffn-hidden-size"), usual);
}

void read_sizes(JobReader& job, bool has_experts) {
  for (const char* key : {"--num-layers", "--hidden-size", "--num-attention-heads", "--seq-length",
                          "--micro-batch-size"}) {
    job.need(key);
  }
  const int64_t dense = dense_d_ff(job);
  const auto of_expert = job.integer("--moe-ffn-hidden-size");
  if (dense > 0) {
    job.assign("model.d_ff", has_experts ? value_or(of_expert, dense) : dense,
               of_expert ? "--moe-ffn-hidden-size" : "--ffn-hidden-size");
  }
  const bool has_groups = job.flag("--group-query-attention");
  const auto groups = job.integer("--num-query-groups");
  job.assign("model.kv_heads", has_groups ? value_or(groups, 1) : int64_t{0}, "--num-query-groups");
  const bool has_rope = job.word("--position-embedding-type").value_or("") == "rope" ||
                        job.flag("--use-rotary-position-embeddings");
  const std::string positions = job.word("--position-embedding-type").value_or("learned_absolute");
  if (positions != "rope" && positions != "learned_absolute") {
    job.refuse("--position-embedding-type", "we have learned and rotary positions",
               "use learned_absolute or rope");
  }
  job.assign("model.positions", std::string(has_rope ? "rope" : "learned"),
             "--position-embedding-type");
  if (has_rope) job.assign("model.rope_theta", value_or(job.integer("--rotary-base"), 10000));
  job.has("--max-position-embeddings");
  const bool is_scaled = job.flag("--use-rope-scaling");
  const ForeignValue factor = value_of_word(job.word("--rope-scaling-factor").value_or("8.0"));
  if (is_scaled && std::holds_alternative<double>(factor)) {
    job.assign("model.rope_scaling_factor", std::get<double>(factor), "--rope-scaling-factor");
  } else if (is_scaled && std::holds_alternative<int64_t>(factor)) {
    job.assign("model.rope_scaling_factor", std::get<int64_t>(factor), "--rope-scaling-factor");
  }
  const std::string dropout = job.word("--hidden-dropout").value_or("0.1");
  if (job.word("--attention-dropout").value_or("0.1") != dropout) {
    job.note("--attention-dropout differs from --hidden-dropout, which is priced for both");
  }
  const ForeignValue share = value_of_word(dropout);
  if (const auto* number = std::get_if<double>(&share)) {
    job.assign("model.dropout", *number, "--hidden-dropout");
  } else if (const auto* integer = std::get_if<int64_t>(&share)) {
    job.assign("model.dropout", *integer, "--hidden-dropout");
  } else {
    job.wrong("--hidden-dropout", "must be a number", "try 0.0");
  }
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
      std::clamp<int64_t>(value_or(job.integer("--make-vocab-size-divisible-by"), 128), 0, 1 << 20);
  const int64_t unit = divisor * degree(job, "--tensor-model-parallel-size");
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

// A number of any type under a key that needs no row of the table.
void read_number(JobReader& job, std::string_view ours, std::string_view theirs) {
  const auto word = job.word(theirs);
  if (!word) return;
  const ForeignValue value = value_of_word(*word);
  if (const auto* number = std::get_if<double>(&value)) {
    job.assign(ours, *number, theirs);
  } else if (const auto* integer = std::get_if<int64_t>(&value)) {
    job.assign(ours, *integer, theirs);
  } else {
    job.wrong(theirs, "must be a number", "write the number itself");
  }
}

// Reads which layers have experts: all, or those of a list such as "([0]*1+[1]*27)".
void read_layers_with_experts(JobReader& job) {
  constexpr std::string_view kKey = "--moe-layer-freq";
  const std::string text = job.word(kKey).value_or("1");
  if (text == "1") return;
  const int64_t layers = value_or(job.integer("--num-layers"), 0);
  const auto pattern = parse_layer_pattern(text, size_t(std::clamp<int64_t>(layers, 0, 1 << 16)));
  if (!pattern || int64_t(pattern->size()) != layers) {
    return job.refuse(kKey, fmt::format("it is no list of {} layers, each 0 or 1", layers),
                      "write it as \"([0]*1+[1]*27)\"");
  }
  const auto first = std::find(pattern->begin(), pattern->end(), 1);
  const bool is_leading = std::count(pattern->begin(), first, 0) == first - pattern->begin() &&
                          std::count(first, pattern->end(), 1) == pattern->end() - first;
  if (!is_leading || first == pattern->end()) {
    return job.refuse(kKey, "only the first layers may be without experts here",
                      "write it as \"([0]*1+[1]*27)\"");
  }
  if (first == pattern->begin()) return;
  job.assign("model.dense_layers", int64_t(first - pattern->begin()), kKey);
  job.assign("model.dense_d_ff", dense_d_ff(job), "--ffn-hidden-size");
}

void read_experts(JobReader& job) {
  read_number(job, "model.experts", "--num-experts");
  read_layers_with_experts(job);
  job.assign("model.top_k", value_or(job.integer("--moe-router-topk"), 2), "--moe-router-topk");
  job.flag("--moe-router-pre-softmax");
  const std::string score = job.word("--moe-router-score-function").value_or("softmax");
  if (score != "softmax" && score != "sigmoid") {
    job.refuse("--moe-router-score-function", "our routers are softmax and sigmoid", "use one");
  }
  job.assign("model.router", score, "--moe-router-score-function");
  const std::string balance = job.word("--moe-router-load-balancing-type").value_or("aux_loss");
  if (balance != "aux_loss" && balance != "seq_aux_loss" && balance != "none") {
    job.refuse("--moe-router-load-balancing-type", "we have the loss of a sequence, or none",
               "use seq_aux_loss");
  }
  job.assign("model.aux_loss", 0.0);
  if (balance != "none") read_number(job, "model.aux_loss", "--moe-aux-loss-coeff");
  job.has("--moe-aux-loss-coeff");
  read_number(job, "model.z_loss", "--moe-z-loss-coeff");
  const int64_t width = value_or(job.integer("--moe-shared-expert-intermediate-size"), 0);
  const int64_t d_ff =
      value_or(job.integer("--moe-ffn-hidden-size"), value_or(job.integer("--ffn-hidden-size"), 0));
  if (width > 0 && (d_ff < 1 || width % d_ff != 0)) {
    job.refuse("--moe-shared-expert-intermediate-size",
               fmt::format("our shared experts are as wide as the others, {}", d_ff),
               "take a multiple");
  } else if (width > 0) {
    job.assign("model.shared_experts", width / d_ff, "--moe-shared-expert-intermediate-size");
  }
  read_number(job, "model.expert_groups", "--moe-router-num-groups");
  read_number(job, "model.top_groups", "--moe-router-group-topk");
  if (job.flag("--moe-router-enable-expert-bias")) {
    job.assign("model.balance_rate", 1e-3, "--moe-router-enable-expert-bias");
    read_number(job, "model.balance_rate", "--moe-router-bias-update-rate");
  }
  read_number(job, "model.capacity_factor", "--moe-expert-capacity-factor");
  if (job.word("--moe-token-drop-policy").value_or("position") != "position") {
    job.note("tokens above an expert's capacity are dropped by position here");
  }
  for (const char* harmless : {"--moe-grouped-gemm", "--moe-token-dispatcher-type"}) {
    job.has(harmless);
  }
  const int64_t tp = value_or(job.integer("--tensor-model-parallel-size"), 1);
  if (const auto etp = job.integer("--expert-tensor-parallel-size"); etp && *etp != tp) {
    job.refuse("--expert-tensor-parallel-size",
               fmt::format("experts are split like the other layers here, over tp = {}", tp),
               fmt::format("price it with {}", tp));
  }
}

void read_megatron_pipeline(JobReader& job) {
  const int64_t pp = std::max<int64_t>(1, degree(job, "--pipeline-model-parallel-size"));
  int64_t chunks = value_or(job.integer("--num-virtual-stages-per-pipeline-rank"), 1);
  std::string_view key = "--num-virtual-stages-per-pipeline-rank";
  if (const auto layers = job.integer("--num-layers-per-virtual-pipeline-stage")) {
    key = "--num-layers-per-virtual-pipeline-stage";
    const int64_t of_rank = value_or(job.integer("--num-layers"), 0) / pp;
    if (*layers < 1 || of_rank % *layers != 0) {
      job.wrong(key, fmt::format("must divide the {} layers of a rank", of_rank), "take a divisor");
    } else {
      chunks = of_rank / *layers;
    }
  }
  if (const auto layout = job.word("--pipeline-model-parallel-layout")) {
    key = "--pipeline-model-parallel-layout";
    std::string plain = *layout;
    // "(t*4|)*6" repeats a part; each part is one stage.
    const size_t repeat = plain.rfind(")*");
    const int64_t bars = std::count(plain.begin(), plain.end(), '|');
    if (repeat != std::string::npos || bars + 1 < pp || (bars + 1) % pp != 0) {
      job.refuse(key, fmt::format("its stages must be written out, a multiple of {}", pp),
                 "write each stage between |");
    } else {
      chunks = (bars + 1) / pp;
      job.note("stages are split by their cost here; the job's own split is not priced");
    }
  }
  job.assign("parallel.schedule", std::string(chunks > 1 ? "interleaved" : "1f1b"), key);
  job.assign("parallel.chunks", chunks, key);
  const bool keeps_order = job.flag("--use-tp-pp-dp-mapping");
  if (!keeps_order) job.assign("parallel.order", std::string("tp,cp,dp,pp"));
}

void read_megatron_zero(JobReader& job) {
  int64_t zero = job.flag("--use-distributed-optimizer") ? 1 : 0;
  std::string_view key = "--use-distributed-optimizer";
  const std::string strategy = job.word("--data-parallel-sharding-strategy").value_or("no_shard");
  if (job.flag("--use-megatron-fsdp")) {
    key = "--data-parallel-sharding-strategy";
    constexpr std::string_view names[] = {"no_shard", "optim", "optim_grads", "optim_grads_params"};
    const auto* found = std::find(std::begin(names), std::end(names), strategy);
    if (found == std::end(names)) {
      job.wrong(key, "is unknown", "use no_shard, optim, optim_grads or optim_grads_params");
    } else {
      zero = found - std::begin(names);
    }
  } else if (job.flag("--use-torch-fsdp2")) {
    key = "--use-torch-fsdp2";
    zero = 3;
  }
  job.assign("parallel.zero", zero, key);
  const int64_t copies = value_or(job.integer("--num-distributed-optimizer-instances"), 1);
  if (copies <= 1) return;
  const int64_t tp_pp =
      degree(job, "--tensor-model-parallel-size") * degree(job, "--pipeline-model-parallel-size");
  const int64_t ranks = job.has("--nproc-per-node")
                            ? degree(job, "--nnodes") * degree(job, "--nproc-per-node")
                            : int64_t{job.request().ranks.value_or(0)};
  if (ranks < 1 || tp_pp < 1 || (ranks / tp_pp) % copies != 0) {
    return job.wrong("--num-distributed-optimizer-instances",
                     "must divide the ranks of data and context parallelism",
                     "change it, or give --ranks N");
  }
  job.assign("parallel.hsdp_shard", ranks / tp_pp / copies,
             "--num-distributed-optimizer-instances");
}

void read_memory(JobReader& job) {
  const bool is_short = job.flag("--recompute-activations");
  const std::string policy =
      job.word("--recompute-granularity").value_or(is_short ? "selective" : "none");
  const std::string modules = job.word("--recompute-modules").value_or("core_attn");
  const std::string method = job.word("--recompute-method").value_or("uniform");
  const int64_t layers = value_or(job.integer("--recompute-num-layers"), 1);
  std::string recompute = "none";
  if (policy == "full") {
    recompute = "full";
    if (method != "uniform" || layers != 1) {
      job.refuse(method != "uniform" ? "--recompute-method" : "--recompute-num-layers",
                 "every layer is recomputed by itself here",
                 "use --recompute-method uniform --recompute-num-layers 1");
    }
  } else if (policy == "selective" && modules.find("layernorm") != std::string::npos) {
    recompute = "selective";
  } else if (policy == "selective" && modules == "core_attn") {
    job.note(
        "selective recomputation of core_attn is priced as none: attention never stores its "
        "scores here");
  } else if (policy == "selective") {
    job.refuse("--recompute-modules", "we recompute norms and activations, or nothing",
               "use layernorm moe_act");
  } else if (policy != "none") {
    job.wrong("--recompute-granularity", "is unknown", "use full or selective");
  }
  job.assign("memory.recompute", recompute, "--recompute-granularity");
  job.assign("memory.offload",
             std::string(job.flag("--optimizer-cpu-offload") ? "optimizer" : "none"),
             "--optimizer-cpu-offload");
}

// Turns words into settings: "--key value", "--key=value", "--flag".
ForeignJob job_of(const ShellCommand& words, const std::string& source) {
  ForeignJob job;
  for (size_t i = 0; i < words.size();) {
    const ShellWord& word = words[i++];
    if (!word.text.starts_with("--")) continue;
    const size_t equals = word.text.find('=');
    std::string key = word.text.substr(0, equals);
    std::replace(key.begin(), key.end(), '_', '-');
    std::string value = equals == std::string::npos ? "" : word.text.substr(equals + 1);
    while (i < words.size() && !words[i].text.starts_with("--")) {
      if (words[i].text.ends_with(".py")) break;  // what the launcher starts
      const std::string& part = words[i++].text;
      if (part == "$@" || part == "$*") continue;  // what the caller of the script adds
      value += (value.empty() ? "" : " ") + part;
    }
    const std::string where = fmt::format("{}:{}", source, word.line);
    const bool is_flag = value.empty() && equals == std::string::npos;
    job.set(key, is_flag ? ForeignValue(true) : value_of_word(value), where);
  }
  return job;
}

// The command of the script that starts the training, or the arguments that stand alone.
ShellCommand training_command(const std::vector<ShellCommand>& commands) {
  ShellCommand arguments, started;
  for (const ShellCommand& command : commands) {
    const bool is_loose = command[0].text.starts_with("-");
    const bool has_script = std::any_of(command.begin(), command.end(), [](const ShellWord& word) {
      return word.text.ends_with(".py") || word.text.ends_with("torchrun");
    });
    const bool has_keys = std::any_of(command.begin(), command.end(), [](const ShellWord& word) {
      return word.text.starts_with("--num-layers") || word.text.starts_with("--micro-batch-size");
    });
    if (is_loose) arguments.insert(arguments.end(), command.begin(), command.end());
    if (has_keys || (has_script && started.empty())) started = command;
  }
  return arguments.size() > started.size() ? arguments : started;
}

}  // namespace

Result<ImportedJob> import_megatron_words(const ShellCommand& words, const ImportRequest& request) {
  JobReader job(request, megatron_keys(), job_of(words, request.source));
  read_ranks(job);
  const bool has_experts = read_family(job);
  read_sizes(job, has_experts);
  read_vocabulary(job);
  read_activation(job);
  job.rows("model.");
  if (has_experts) read_experts(job);
  job.has("--expert-tensor-parallel-size");  // a dense model has no use for it
  job.rows("batch.");
  job.rows("parallel.");
  read_megatron_pipeline(job);
  read_megatron_zero(job);
  read_memory(job);
  const bool is_bf16 = job.flag("--bf16"), is_fp16 = job.flag("--fp16");
  job.assign("precision.compute",
             std::string(is_bf16   ? "bf16"
                         : is_fp16 ? "fp16"
                                   : "fp32"),
             is_bf16 ? "--bf16" : "--fp16");
  job.rows("optim.");
  read_number(job, "optim.decay_steps", "--lr-wsd-decay-iters");
  read_number(job, "run.steps", "--train-iters");
  job.refuse_all(kMegatronRefusals);
  return job.finish();
}

Result<ImportedJob> import_megatron(const ImportRequest& request) {
  TRIREME_TRY(commands, parse_shell(request.text, request.source));
  const ShellCommand words = training_command(commands);
  if (words.empty()) {
    return usage(
        fmt::format("{}: no command with arguments of Megatron-LM, such as --num-layers; "
                    "name the script that starts the training",
                    request.source));
  }
  return import_megatron_words(words, request);
}

}  // namespace trireme
