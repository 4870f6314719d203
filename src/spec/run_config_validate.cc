#include "spec/run_config_validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/input_limits.h"
#include "spec/config_rules.h"
#include "spec/degree_rules.h"
#include "spec/sum_tree_rules.h"

namespace trireme {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 31;
constexpr int64_t kMostBatchTokens = int64_t{1} << 40;
constexpr int64_t kMostRanks = int64_t{1} << 20;

// True for "" and for numbers of up to six digits separated by commas.
bool is_rank_list(std::string_view text) {
  int digits = 0;
  for (const char c : text) {
    if (c == ',' && digits == 0) return false;
    if (c != ',' && (c < '0' || c > '9' || digits == 6)) return false;
    digits = c == ',' ? 0 : digits + 1;
  }
  return text.empty() || digits > 0;
}

void model_rules(ConfigRules& rules, const ModelConfig& model) {
  rules.size("model.layers", model.layers, 1, limits::kLayers);
  rules.size("model.d_model", model.d_model, 1, limits::kWidth);
  rules.size("model.heads", model.heads, 1, limits::kWidth);
  rules.size("model.kv_heads", model.kv_heads, 0, limits::kWidth);
  rules.size("model.head_dim", model.head_dim, 0, limits::kWidth);
  rules.size("model.d_ff", model.d_ff, 0, limits::kWidth);
  rules.size("model.vocab_size", model.vocab_size, 0, limits::kVocabSize);
  rules.size("model.seq_len", model.seq_len, 1, limits::kSeqLen);
  rules.divides("model.kv_heads", model.kv_heads, "model.heads", model.heads);
  if (model.head_dim == 0 && model.heads >= 1) {
    rules.require(model.d_model % model.heads == 0, "model.heads",
                  fmt::format("must divide model.d_model = {}", model.d_model),
                  "change one of them, or set model.head_dim");
  }
  const bool rope =
      model.positions == "rope" || (model.positions.empty() && model.family != ModelFamily::Gpt2);
  const int64_t head_dim = model.head_dim != 0 ? model.head_dim
                           : model.heads >= 1  ? model.d_model / model.heads
                                               : 0;
  rules.require(!rope || head_dim % 2 == 0, model.head_dim != 0 ? "model.head_dim" : "model.heads",
                fmt::format("gives head_dim = {}, but rotary positions rotate pairs", head_dim),
                "choose an even head_dim");
  rules.in_range("model.dropout", model.dropout, 0.0, 1.0);
  rules.at_least("model.norm_eps", model.norm_eps, 0.0);
  rules.at_least("model.init_stddev", model.init_stddev, 0.0);
  rules.require(model.rope_theta > 0.0, "model.rope_theta", "must be positive", "try 10000.0");
  rules.at_least("model.rope_scaling_factor", model.rope_scaling_factor, 1.0);
  if (model.rope_scaling_factor > 1.0) {
    rules.require(model.rope_low_freq_factor > 0.0, "model.rope_low_freq_factor",
                  "must be positive", "try 1.0");
    rules.require(
        model.rope_high_freq_factor > model.rope_low_freq_factor, "model.rope_high_freq_factor",
        fmt::format("must be above model.rope_low_freq_factor = {}", model.rope_low_freq_factor),
        "try 4.0");
    rules.size("model.rope_original_seq_len", model.rope_original_seq_len, 1, kMostTokens);
  }
}

constexpr int64_t kMostExperts = 4096;  // so that a bias per expert fits into one norm chunk

// Checks how many of the experts a token visits. The model has experts.
void chosen_expert_rules(ConfigRules& rules, const ModelConfig& model) {
  const int64_t groups = model.expert_groups, top_groups = model.top_groups;
  rules.size("model.top_k", model.top_k, 1, model.experts);
  rules.divides("model.expert_groups", groups, "model.experts", model.experts);
  if (model.top_k > model.experts || groups < 1 || top_groups < 1) return;
  if (model.experts % groups != 0 || top_groups >= groups) return;
  const int64_t reachable = model.experts / groups * top_groups;
  rules.require(model.top_k <= reachable, "model.top_k",
                fmt::format("must not exceed the {} expert{} of {} group{}", reachable,
                            reachable == 1 ? "" : "s", top_groups, top_groups == 1 ? "" : "s"),
                fmt::format("raise model.top_groups, or try {}", reachable));
}

void expert_rules(ConfigRules& rules, const ModelConfig& model) {
  if (model.family != ModelFamily::Moe) return;
  rules.size("model.experts", model.experts, 1, kMostExperts);
  rules.size("model.shared_experts", model.shared_experts, 0, kMostExperts);
  rules.size("model.expert_groups", model.expert_groups, 1, kMostExperts);
  rules.size("model.top_groups", model.top_groups, 1, std::max<int64_t>(1, model.expert_groups));
  if (model.experts >= 1) chosen_expert_rules(rules, model);
  rules.require(model.activation.empty() || model.activation == "swiglu", "model.activation",
                "is not supported for experts", "use \"swiglu\"");
  rules.at_least("model.capacity_factor", model.capacity_factor, 0.0);
  rules.at_least("model.aux_loss", model.aux_loss, 0.0);
  rules.at_least("model.z_loss", model.z_loss, 0.0);
  rules.require(model.z_loss == 0.0 || model.router == "softmax", "model.z_loss",
                "is a loss of the softmax router", "set it to 0, or model.router = \"softmax\"");
  rules.at_least("model.balance_rate", model.balance_rate, 0.0);
}

// Returns the sequences of a step as configured; 0 if they are not set or invalid.
int64_t sequences_of(const RunConfig& config) {
  const BatchConfig& batch = config.batch;
  if (batch.global_sequences > 0) return batch.global_sequences;
  const int64_t seq_len = config.model.seq_len;
  return seq_len > 0 && batch.global_tokens % seq_len == 0 ? batch.global_tokens / seq_len : 0;
}

void batch_rules(ConfigRules& rules, const RunConfig& config) {
  const BatchConfig& batch = config.batch;
  const int64_t seq_len = config.model.seq_len;
  rules.size("batch.global_sequences", batch.global_sequences, 0, kMostTokens);
  rules.size("batch.global_tokens", batch.global_tokens, 0, kMostBatchTokens);
  rules.size("batch.micro_sequences", batch.micro_sequences, 1, kMostTokens);
  if (batch.global_tokens > 0 && seq_len > 0) {
    if (batch.global_sequences > 0) {
      // Uses division, because the product of two large values may overflow.
      rules.require(batch.global_tokens % seq_len == 0 &&
                        batch.global_tokens / seq_len == batch.global_sequences,
                    "batch.global_tokens",
                    fmt::format("contradicts batch.global_sequences = {} at model.seq_len = {}",
                                batch.global_sequences, seq_len),
                    "set one of the two");
    } else {
      rules.require(
          batch.global_tokens % seq_len == 0, "batch.global_tokens",
          fmt::format("must be a multiple of model.seq_len = {}", seq_len),
          fmt::format("try {}", std::max<int64_t>(1, batch.global_tokens / seq_len) * seq_len));
    }
  }
  if (batch.global_sequences == 0 && batch.global_tokens == 0) return;
  const int64_t sequences = sequences_of(config);
  const int64_t dp = config.parallel.dp;
  if (sequences <= 0 || batch.micro_sequences < 1 || dp < 1) return;
  const int64_t micro = sequences % batch.micro_sequences == 0 ? batch.micro_sequences : 1;
  rules.require(sequences % dp == 0, "parallel.dp",
                fmt::format("must divide the {} sequences of a step", sequences),
                try_divisors_of(sequences / micro));
  if (sequences % dp != 0) return;
  rules.divides("batch.micro_sequences", batch.micro_sequences, "the sequences of a rank and step",
                sequences / dp);
}

void optim_rules(ConfigRules& rules, const OptimConfig& optim) {
  const OptimConfig usual;
  rules.at_least("optim.lr", optim.lr, 0.0, usual.lr);
  rules.at_least("optim.min_lr", optim.min_lr, 0.0);
  const bool has_lr = optim.lr >= 0.0;
  rules.require(!has_lr || !(optim.min_lr > optim.lr), "optim.min_lr",
                fmt::format("must not be above optim.lr = {}", optim.lr),
                fmt::format("try {}", optim.lr / 10));
  rules.in_range("optim.beta1", optim.beta1, 0.0, 1.0, usual.beta1);
  rules.in_range("optim.beta2", optim.beta2, 0.0, 1.0, usual.beta2);
  rules.require(optim.eps > 0.0, "optim.eps", "must be positive", "try 1e-08");
  rules.at_least("optim.weight_decay", optim.weight_decay, 0.0);
  rules.in_range("optim.momentum", optim.momentum, 0.0, 1.0, usual.momentum);
  rules.at_least("optim.warmup_steps", optim.warmup_steps, 0);
  rules.at_least("optim.decay_steps", optim.decay_steps, 0);
  rules.at_least("optim.clip_norm", optim.clip_norm, 0.0);
}

void parallel_rules(ConfigRules& rules, const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  const ModelConfig& model = config.model;
  rules.size("parallel.dp", parallel.dp, 1, kMostRanks);
  rules.size("parallel.tp", parallel.tp, 1, kMostRanks);
  rules.size("parallel.pp", parallel.pp, 1, kMostRanks);
  rules.size("parallel.cp", parallel.cp, 1, kMostRanks);
  rules.size("parallel.ep", parallel.ep, 1, kMostRanks);
  rules.size("parallel.chunks", parallel.chunks, 0, kMostRanks);
  if (parallel.pp >= 1 && parallel.chunks >= 1 && model.layers >= 1) {
    rules.require(int64_t{parallel.pp} * parallel.chunks <= model.layers,
                  parallel.pp > 1 ? "parallel.pp" : "parallel.chunks",
                  fmt::format("gives {} stages (pp * chunks) for model.layers = {}",
                              int64_t{parallel.pp} * parallel.chunks, model.layers),
                  "take fewer stages or more layers");
  }
  degree_rules(rules, config);
  rules.at_least("parallel.hsdp_shard", parallel.hsdp_shard, 0);
  const bool has_servers = parallel.sync == "parameter_server";
  rules.require(parallel.servers >= 1 && (!has_servers || parallel.servers <= parallel.dp),
                "parallel.servers", "must be between 1 and parallel.dp", "try 1");
  rules.require(
      !has_servers || (parallel.ep == 1 && parallel.hsdp_shard == 0), "parallel.sync",
      "keeps all parameters on the servers, so experts and shards cannot be on other ranks",
      "set parallel.ep = 1 and parallel.hsdp_shard = 0, or sync = \"all_reduce\"");
  rules.at_least("parallel.staleness", parallel.staleness, 0);
  rules.require(parallel.staleness == 0 || (has_servers && parallel.servers == 1),
                "parallel.staleness", "needs one parameter server",
                "set parallel.sync = \"parameter_server\" and parallel.servers = 1");
  rules.at_least("parallel.bucket_bytes", double(parallel.bucket_bytes), 0);
  rules.in_range("parallel.prefetch", parallel.prefetch, 0, 1024);
  rules.divides("parallel.hsdp_shard", parallel.hsdp_shard, "parallel.dp", parallel.dp);
}

void run_rules(ConfigRules& rules, const RunConfig& config) {
  const RunSection& run = config.run;
  rules.at_least("memory.limit_bytes", config.memory.limit_bytes, 0);
  rules.at_least("memory.offload_buffer_bytes", double(config.memory.offload_buffer_bytes), 4096);
  int exponent = 0;
  const double scale = config.precision.loss_scale;
  const bool is_power = scale > 0.0 && std::frexp(scale, &exponent) == 0.5;
  rules.require(is_power && exponent > -24 && exponent <= 25, "precision.loss_scale",
                "must be a power of two between 2^-24 and 2^24", "try 256.0");
  rules.at_least("precision.loss_scale_window", config.precision.loss_scale_window, 1);
  rules.at_least("checkpoint.every", config.checkpoint.every, 0);
  rules.at_least("checkpoint.keep", config.checkpoint.keep, 0);
  rules.at_least("checkpoint.keep_every", config.checkpoint.keep_every, 0);
  const int64_t every = config.checkpoint.every, keep_every = config.checkpoint.keep_every;
  if (every > 0 && keep_every > 0) {
    rules.require(keep_every % every == 0, "checkpoint.keep_every",
                  fmt::format("must be a multiple of checkpoint.every = {}", every),
                  fmt::format("try {}", (keep_every / every + 1) * every));
  }
  rules.require(config.checkpoint.timeout_s > 0.0, "checkpoint.timeout_s", "must be positive",
                "try 300.0");
  rules.at_least("run.steps", run.steps, 1);
  rules.at_least("run.stop_after", run.stop_after, 0);
  rules.require(
      run.reproducible != "mesh" || config.model.family != ModelFamily::Moe, "run.reproducible",
      "is for model.family = \"gpt2\" and \"llama\": a router's gradient is summed over tp "
      "ranks at the end of a step",
      "take \"layout\"");
  rules.require(run.reproducible != "mesh" || !config.parallel.sequence, "run.reproducible",
                "with parallel.sequence = true would sum gradients of norms over micro-batches "
                "before tp ranks",
                "set parallel.sequence = false or take \"layout\"");
  rules.in_range("run.threads_per_rank", run.threads_per_rank, 0, 4097);
  rules.require(run.comm_timeout_s > 0.0, "run.comm_timeout_s", "must be positive", "try 60.0");
  rules.at_least("run.eval_every", run.eval_every, 0);
  rules.at_least("run.eval_sequences", run.eval_sequences, 1);
  rules.at_least("run.sample_every", run.sample_every, 0);
  rules.at_least("run.sample_tokens", run.sample_tokens, 0);
  rules.at_least("trace.first_step", config.trace.first_step, 1);
  rules.at_least("trace.steps", config.trace.steps, 0);
  rules.require(is_rank_list(config.trace.ranks), "trace.ranks",
                "must be rank numbers between commas", "try \"0,3\"");
  rules.at_least("run.histograms_every", run.histograms_every, 0);
  rules.in_range("run.prometheus_port", run.prometheus_port, 0, 65536);
}

}  // namespace

std::string ConfigProblem::message() const {
  return fmt::format("{} = {} {}; {}", key, value, rule, remedy);
}

std::vector<ConfigProblem> validate(const RunConfig& config) {
  ConfigRules rules(config);
  rules.choices();
  model_rules(rules, config.model);
  expert_rules(rules, config.model);
  batch_rules(rules, config);
  optim_rules(rules, config.optim);
  parallel_rules(rules, config);
  sum_tree_rules(rules, config);
  run_rules(rules, config);
  return rules.take();
}

}  // namespace trireme
