#include "schema/run_config_validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <optional>

#include "base/input_limits.h"
#include "schema/batch.h"
#include "schema/config_rules.h"
#include "schema/degree_rules.h"
#include "schema/mesh_order.h"
#include "schema/model_rules.h"
#include "schema/parity_code.h"
#include "schema/sample_ranges.h"
#include "schema/schedule_shape.h"
#include "schema/stage_rules.h"
#include "schema/sum_tree_rules.h"

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
  const int64_t sequences = sequences_of_step(config);
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

// What a rank takes at once, and all ranks in a step.
void token_rules(ConfigRules& rules, const RunConfig& config) {
  const BatchConfig& batch = config.batch;
  const double seq_len = double(config.model.seq_len);
  if (config.parallel.cp < 1) return;
  const double tokens = double(batch.micro_sequences) * seq_len / double(config.parallel.cp);
  rules.require(tokens <= double(limits::kMicroBatchTokens), "batch.micro_sequences",
                fmt::format("of model.seq_len = {} are {:.1e} tokens on a rank; at most {} are "
                            "planned",
                            config.model.seq_len, tokens, limits::kMicroBatchTokens),
                "take a smaller micro-batch, shorter sequences or a larger parallel.cp",
                ErrorKind::Infeasible);
  const double of_step = double(sequences_of_step(config)) * seq_len;
  rules.require(
      of_step <= double(kMostBatchTokens),
      batch.global_tokens > 0 ? "batch.global_tokens" : "batch.global_sequences",
      fmt::format("gives a step {:.1e} tokens; it has at most {}", of_step, kMostBatchTokens),
      "take fewer or shorter sequences");
}

void optim_rules(ConfigRules& rules, const RunConfig& config) {
  const OptimConfig& optim = config.optim;
  const OptimConfig usual;
  rules.at_least("optim.lr", optim.lr, 0.0, usual.lr);
  rules.at_least("optim.min_lr", optim.min_lr, 0.0);
  const bool has_lr = optim.lr >= 0.0;
  rules.require(!has_lr || !(optim.min_lr > optim.lr), "optim.min_lr",
                fmt::format("must not be above optim.lr = {}", optim.lr),
                fmt::format("try {}", optim.lr / 10));
  if (optim.schedule == LrScheduleKind::Range) {
    rules.require(
        optim.min_lr > 0.0, "optim.min_lr",
        "must be above 0 with optim.schedule = \"range\", which rises from it by the same "
        "factor every step",
        "try 1e-06");
    rules.require(optim.warmup_steps <= 0, "optim.warmup_steps",
                  "must be 0 with optim.schedule = \"range\", which rises by itself",
                  "set optim.warmup_steps = 0");
  }
  rules.in_range("optim.beta1", optim.beta1, 0.0, 1.0, usual.beta1);
  rules.in_range("optim.beta2", optim.beta2, 0.0, 1.0, usual.beta2);
  rules.require(optim.eps > 0.0 && std::isfinite(optim.eps), "optim.eps",
                "must be positive and finite", "try 1e-08");
  rules.at_least("optim.weight_decay", optim.weight_decay, 0.0);
  rules.in_range("optim.momentum", optim.momentum, 0.0, 1.0, usual.momentum);
  rules.in_range("optim.muon_momentum", optim.muon_momentum, 0.0, 1.0, usual.muon_momentum);
  rules.at_least("optim.qk_clip", optim.qk_clip, 0.0);
  rules.at_least("optim.warmup_steps", optim.warmup_steps, 0);
  rules.at_least("optim.decay_steps", optim.decay_steps, 0);
  rules.at_least("optim.clip_norm", optim.clip_norm, 0.0);
  rules.require(
      !optim.post_validate || config.memory.offload == OffloadChoice::None, "optim.post_validate",
      fmt::format("keeps copies of weights and the optimizer's state in memory from Step "
                  "to Validate, so that what memory.offload = \"{}\" takes out of it "
                  "would stand there again; what it would hide, ranks wait for while the "
                  "first pieces of the state are read anyway",
                  name_of(config.memory.offload)),
      "set optim.post_validate = false or memory.offload = \"none\"", ErrorKind::Infeasible);
}

// Muon updates whole matrices in Step, and the tp ranks take part together.
void muon_rules(ConfigRules& rules, const RunConfig& config) {
  if (config.optim.name != OptimizerKind::Muon) return;
  const auto need = [&](bool holds, std::string rule, std::string remedy) {
    rules.require(holds, "optim.name", std::move(rule), std::move(remedy), ErrorKind::Infeasible);
  };
  need(config.memory.offload == OffloadChoice::None,
       fmt::format("needs whole matrices of the optimizer's state, but memory.offload = \"{}\" "
                   "brings it from the file in pieces",
                   name_of(config.memory.offload)),
       "set memory.offload = \"none\" or optim.name = \"adamw\"");
  need(!config.optim.post_validate,
       "gathers matrices over tp inside the update, which every rank must then make, but "
       "optim.post_validate lets each rank decide alone whether it updates early",
       "set optim.post_validate = false or optim.name = \"adamw\"");
  need(config.parallel.staleness <= 0,
       "updates inside the planned step, but with parallel.staleness a server updates at any time",
       "set parallel.staleness = 0 or optim.name = \"adamw\"");
}

// QK-clip scales weights that Muon updates, on both sides of the logits.
void qk_clip_rules(ConfigRules& rules, const RunConfig& config) {
  if (!(config.optim.qk_clip > 0.0)) return;
  const std::string remedy = "set optim.qk_clip = 0.0, or ";
  rules.require(
      config.optim.name == OptimizerKind::Muon, "optim.qk_clip",
      fmt::format("is a part of Muon, but optim.name = \"{}\"", name_of(config.optim.name)),
      remedy + "optim.name = \"muon\"");
  rules.require(config.model.lora_rank <= 0, "optim.qk_clip",
                fmt::format("scales the weights of queries and keys, which model.lora_rank = {} "
                            "keeps as they are",
                            config.model.lora_rank),
                remedy + "model.lora_rank = 0");
  rules.require(!config.model.qk_norm, "optim.qk_clip",
                "scales weights of queries and keys, which model.qk_norm = true norms again",
                remedy + "model.qk_norm = false");
  rules.require(config.model.kv_lora_rank <= 0, "optim.qk_clip",
                "scales the rows of a head in the weights of queries and keys, but with "
                "model.kv_lora_rank all heads share a part of the keys",
                remedy + "model.kv_lora_rank = 0");
  rules.require(config.model.mtp_depth <= 0, "optim.qk_clip",
                "does not know the heads of the modules of multi-token prediction",
                remedy + "model.mtp_depth = 0");
  rules.require(config.optim.frozen.empty(), "optim.qk_clip",
                fmt::format("scales queries and keys together, but optim.frozen = \"{}\" may keep "
                            "one of them",
                            config.optim.frozen),
                remedy + "optim.frozen = \"\"");
}

// What gradients, moments and weights are kept in.
void state_dtype_rules(ConfigRules& rules, const RunConfig& config) {
  const ComputeChoice compute = config.precision.compute;
  rules.require(config.optim.master || compute == ComputeChoice::Bf16, "optim.master",
                compute == ComputeChoice::Fp32
                    ? "leaves out the fp32 copy of 16-bit weights, but precision.compute = "
                      "\"fp32\" has fp32 weights and no copy"
                    : "updates weights in bf16; those in fp16 have too small a range",
                "set optim.master = true or precision.compute = \"bf16\"");
  rules.require(config.optim.grad_dtype == StateChoice::Fp32 || config.model.balance_rate <= 0.0,
                "optim.grad_dtype",
                "counts exactly up to 256 only, and with model.balance_rate the visits of every "
                "expert are counted in the place of a gradient",
                "set optim.grad_dtype = \"fp32\" or model.balance_rate = 0.0");
}

void rank_count_rules(ConfigRules& rules, const ParallelConfig& parallel) {
  const double ranks =
      double(parallel.dp) * double(parallel.tp) * double(parallel.pp) * double(parallel.cp);
  rules.require(ranks <= double(kMostRanks), "parallel.dp",
                fmt::format("gives {:.0f} ranks (dp * tp * pp * cp); a run has at most {}", ranks,
                            kMostRanks),
                "take smaller degrees");
}

void order_rules(ConfigRules& rules, const ParallelConfig& parallel) {
  const Result<MeshOrder> order = parse_mesh_order(parallel.order);
  if (order.ok()) return;
  rules.require(false, "parallel.order", order.error().message,
                fmt::format("name each of tp, cp, pp and dp once, innermost first, such as \"{}\"",
                            to_string(kUsualOrder)));
}

// Chunks per rank. A search for a schedule begins with one.
int chunks_of(const ParallelConfig& parallel) {
  if (parallel.chunks > 0) return parallel.chunks;
  return parallel.schedule == ScheduleKind::Auto ? 1 : default_chunks(parallel.schedule);
}

// Every stage has a layer, and the schedule takes the numbers of stages, chunks and micro-batches.
void schedule_rules(ConfigRules& rules, const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  const int64_t layers = config.model.layers;
  if (parallel.pp < 1 || parallel.chunks < 0 || layers < 1) return;
  const bool is_auto = parallel.schedule == ScheduleKind::Auto;
  const int chunks = chunks_of(parallel);
  // Where two ranks hold every stage, there are half as many.
  const int copies = is_auto ? 1 : traits_of(parallel.schedule).param_copies();
  const int64_t num_stages = int64_t{parallel.pp} * chunks / copies;
  rules.require(
      num_stages <= layers, parallel.pp > 1 ? "parallel.pp" : "parallel.chunks",
      fmt::format("gives {} stages (pp * chunks) for model.layers = {}", num_stages, layers),
      "take fewer stages or more layers",
      parallel.chunks > 0 ? ErrorKind::Usage : ErrorKind::Infeasible);
  const int64_t num_microbatches = microbatches_of_step(config);
  if (num_microbatches < 1) return;  // reported by batch_rules
  const ScheduleShape shape{parallel.pp, int(std::min<int64_t>(num_microbatches, INT_MAX)), chunks};
  const std::optional<ShapeProblem> problem =
      is_auto ? problem_of_counts(shape) : problem_of_shape(parallel.schedule, shape);
  if (!problem) return;
  rules.require(false, "parallel.schedule", "cannot be: " + problem->rule, problem->remedy,
                problem->kind);
}

// Workers that do not wait for each other are copies of the whole model.
void staleness_rules(ConfigRules& rules, const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  rules.at_least("parallel.staleness", parallel.staleness, 0);
  if (parallel.staleness <= 0) return;
  const auto need = [&](bool holds, std::string remedy, ErrorKind kind = ErrorKind::Infeasible) {
    rules.require(holds, "parallel.staleness",
                  "trains copies of the whole model that do not wait for each other",
                  std::move(remedy), kind);
  };
  need(parallel.sync == GradSync::ParameterServer && parallel.servers == 1,
       "set parallel.sync = \"parameter_server\" and parallel.servers = 1", ErrorKind::Usage);
  const bool is_whole = parallel.tp == 1 && parallel.pp == 1 && parallel.cp == 1 &&
                        parallel.ep == 1 && parallel.zero == 0;
  need(is_whole, "set parallel.tp, pp, cp and ep to 1 and parallel.zero to 0");
  const bool has_one_stage = parallel.schedule != ScheduleKind::Auto && chunks_of(parallel) == 1;
  need(has_one_stage, "set parallel.schedule = \"1f1b\" and parallel.chunks = 0");
  need(config.memory.offload == OffloadChoice::None && !config.optim.post_validate,
       "set memory.offload = \"none\" and optim.post_validate = false");
  need(config.precision.compute != ComputeChoice::Fp16,
       "they have no loss scale: set precision.compute = \"bf16\"");
  need(config.run.backend == BackendChoice::Local,
       "its ranks are threads: set run.backend = \"local\"");
}

void parallel_rules(ConfigRules& rules, const RunConfig& config, int64_t data_vocab_size) {
  const ParallelConfig& parallel = config.parallel;
  rules.size("parallel.dp", parallel.dp, 1, kMostRanks);
  rules.size("parallel.tp", parallel.tp, 1, kMostRanks);
  rules.size("parallel.pp", parallel.pp, 1, kMostRanks);
  rules.size("parallel.cp", parallel.cp, 1, kMostRanks);
  rules.size("parallel.ep", parallel.ep, 1, kMostRanks);
  rules.size("parallel.chunks", parallel.chunks, 0, kMostRanks);
  rank_count_rules(rules, parallel);
  order_rules(rules, parallel);
  schedule_rules(rules, config);
  stage_rules(rules, config);
  degree_rules(rules, config, data_vocab_size);
  rules.require(parallel.zero >= 0 && parallel.zero <= 3, "parallel.zero", "is unknown",
                "use 0, 1, 2 or 3");
  rules.at_least("parallel.hsdp_shard", parallel.hsdp_shard, 0);
  const bool has_servers = parallel.sync == GradSync::ParameterServer;
  rules.require(parallel.servers >= 1 && (!has_servers || parallel.servers <= parallel.dp),
                "parallel.servers", "must be between 1 and parallel.dp", "try 1");
  rules.require(
      !has_servers || (parallel.ep == 1 && parallel.hsdp_shard == 0), "parallel.sync",
      "keeps all parameters on the servers, so experts and shards cannot be on other ranks",
      "set parallel.ep = 1 and parallel.hsdp_shard = 0, or sync = \"all_reduce\"");
  staleness_rules(rules, config);
  rules.at_least("parallel.bucket_bytes", double(parallel.bucket_bytes), 0);
  rules.in_range("parallel.prefetch", parallel.prefetch, 0, 1024);
  rules.divides("parallel.hsdp_shard", parallel.hsdp_shard, "parallel.dp", parallel.dp);
}

// The noise is the difference between the gradients of a small and of a large batch.
void noise_scale_rules(ConfigRules& rules, const RunConfig& config) {
  const int64_t every = config.run.noise_scale_every;
  rules.at_least("run.noise_scale_every", double(every), 0);
  if (every <= 0) return;
  const auto need = [&](bool holds, std::string why, std::string remedy) {
    rules.require(holds, "run.noise_scale_every", std::move(why), std::move(remedy));
  };
  const bool has_one = config.parallel.dp == 1 && microbatches_of_step(config) == 1;
  need(!has_one,
       "compares the gradient of one micro-batch with that of the step, which has no more",
       "make batch.micro_sequences smaller, or set run.noise_scale_every = 0");
  const ModelConfig& model = config.model;
  const bool has_router_loss =
      model.family == ModelFamily::Moe && (model.aux_loss > 0.0 || model.z_loss > 0.0);
  need(!has_router_loss, "measures a loss over targets, and a router's losses count every token",
       "set model.aux_loss = 0 and model.z_loss = 0, or run.noise_scale_every = 0");
  need(config.parallel.staleness == 0, "needs ranks that step together",
       "set parallel.staleness = 0, or run.noise_scale_every = 0");
}

// The ranks agree on the verdict of every check after a step that they make together.
void corruption_rules(ConfigRules& rules, const RunConfig& config) {
  for (const auto& [key, every] :
       {std::pair{"run.check_state_every", config.run.check_state_every},
        {"run.replay_every", config.run.replay_every},
        {"run.replay_elsewhere_every", config.run.replay_elsewhere_every},
        {"run.check_products_every", config.run.check_products_every}}) {
    rules.at_least(key, double(every), 0);
    rules.require(every <= 0 || config.parallel.staleness == 0, key,
                  "needs ranks that step together",
                  fmt::format("set parallel.staleness = 0, or {} = 0", key));
  }
}

// What a net of images cannot have, and what only such a net has.
void image_run_rules(ConfigRules& rules, const RunConfig& config) {
  const bool is_net = reads_images(config.model.family);
  const bool is_set = config.data.source == DataSource::Images;
  rules.require(is_net || !is_set, "data.source", "is a set of images, but the model reads tokens",
                "set model.family = \"conv_net\", or data.source = \"files\"");
  rules.require(!is_net || config.data.source != DataSource::Files, "data.source",
                "are token files, but the model reads images",
                "set data.source = \"images\" or \"synthetic\"");
  rules.in_range("data.val_fraction", config.data.val_fraction, 0.0, 1.0);
  rules.size("data.crop_margin", config.data.crop_margin, 0, 4096);
  if (!is_net) return;
  rules.require(config.parallel.cp == 1, "parallel.cp", "cannot cut an image", "set it to 1");
  const int64_t images = config.batch.micro_sequences, tp = config.parallel.tp;
  const bool may_be_uneven = images < 1 || tp < 1 || cuts_image_rows(config.parallel.layers);
  rules.require(
      may_be_uneven || images % tp == 0, "batch.micro_sequences",
      fmt::format("must be a multiple of parallel.tp = {}, whose ranks share out the images", tp),
      fmt::format("try {}, or share out the rows of images by parallel.layers (\"spatial\")",
                  (images / std::max<int64_t>(tp, 1) + 1) * tp));
  rules.require(!config.parallel.sequence, "parallel.sequence",
                "splits sequences of tokens; images are parts over tp without it",
                "set parallel.sequence = false");
  rules.require(!config.parallel.tp_overlap, "parallel.tp_overlap", "sends rows of tokens",
                "set parallel.tp_overlap = false");
  rules.require(config.parallel.tp == 1 || config.run.reproducible != Reproducible::Mesh,
                "run.reproducible",
                "sums gradients in slices of hidden units; those of "
                "convolutions are sums over the images of tp ranks",
                "take \"layout\", or set parallel.tp = 1");
  rules.require(!config.data.document_mask, "data.document_mask", "needs tokens",
                "set it to false");
  rules.require(config.run.sample_every == 0, "run.sample_every",
                "samples text, and the model reads images", "set it to 0");
  rules.require(config.optim.grad_dtype == StateChoice::Fp32, "optim.grad_dtype",
                "would round the means of batch norms, which are summed like gradients",
                "set optim.grad_dtype = \"fp32\"");
  rules.require(config.optim.master, "optim.master",
                "leaves out the fp32 copy, which the statistics of batch norms need",
                "set optim.master = true");
  rules.require(config.parallel.staleness == 0, "parallel.staleness",
                "has no mean over the micro-batches of a step for the batch norms",
                "set parallel.staleness = 0");
}

void data_rules(ConfigRules& rules, const DataConfig& data) {
  for (const WeightedFile& file : data.train_mixture) {
    rules.require(!file.path.empty(), "data.train", "has a file without a name",
                  "name a token file of `trireme data prepare`");
    rules.require(file.weight > 0.0 && std::isfinite(file.weight), "data.train",
                  "has a weight that is not positive", "leave such a file out");
  }
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
  const auto steps = [](int64_t every) { return every == kAutoSteps ? 0.0 : double(every); };
  rules.at_least("checkpoint.every", steps(config.checkpoint.every), 0);
  rules.at_least("checkpoint.keep", config.checkpoint.keep, 0);
  rules.at_least("checkpoint.keep_every", config.checkpoint.keep_every, 0);
  rules.at_least("checkpoint.memory_every", steps(config.checkpoint.memory_every), 0);
  const bool is_stale = config.parallel.staleness > 0;  // workers do not agree between steps
  rules.require(!is_stale || config.checkpoint.every != kAutoSteps, "checkpoint.every",
                "\"auto\" needs ranks that step together, and parallel.staleness is above 0",
                "give a number of steps");
  rules.require(!is_stale || run.spike == SpikeChoice::None, "run.spike",
                "needs ranks that step together, and parallel.staleness is above 0",
                "set run.spike = \"none\"");
  rules.require(!is_stale || !run.skip_bad_batches, "run.skip_bad_batches",
                "needs ranks that step together, and parallel.staleness is above 0",
                "set run.skip_bad_batches = false");
  rules.require(!is_stale || run.skip_samples.empty(), "run.skip_samples",
                "needs ranks that step together, and parallel.staleness is above 0",
                "leave it empty");
  const auto skipped = parse_sample_ranges(run.skip_samples);
  rules.require(skipped.ok(), "run.skip_samples", skipped.ok() ? "" : skipped.error().message,
                "write such as \"28-31,96-99\", or leave it empty");
  const int64_t every = config.checkpoint.every, keep_every = config.checkpoint.keep_every;
  rules.require(
      every != kAutoSteps || keep_every == 0, "checkpoint.keep_every",
      "keeps multiples of a number of steps, and checkpoint.every = \"auto\" saves at any "
      "step",
      "set checkpoint.keep_every = 0, or give checkpoint.every a number");
  if (every > 0 && keep_every > 0) {
    rules.require(keep_every % every == 0, "checkpoint.keep_every",
                  fmt::format("must be a multiple of checkpoint.every = {}", every),
                  fmt::format("try {}", (keep_every / every + 1) * every));
  }
  const Result<ParityChoice> parity = parse_parity(config.checkpoint.parity);
  rules.require(parity.ok(), "checkpoint.parity", parity.ok() ? "" : parity.error().message,
                "try \"auto\"");
  rules.require(config.checkpoint.timeout_s > 0.0, "checkpoint.timeout_s", "must be positive",
                "try 300.0");
  rules.at_least("run.steps", run.steps, 1);
  rules.at_least("run.stop_after", run.stop_after, 0);
  rules.require(
      run.reproducible != Reproducible::Mesh || config.model.family != ModelFamily::Moe,
      "run.reproducible",
      "is for model.family = \"gpt2\" and \"llama\": a router's gradient is summed over tp "
      "ranks at the end of a step",
      "take \"layout\"");
  rules.require(run.reproducible != Reproducible::Mesh || !config.model.parallel_block,
                "run.reproducible",
                "keeps the sums of attention and MLP apart; with "
                "model.parallel_block they are one sum",
                "set run.reproducible = \"layout\", or model.parallel_block = false");
  rules.require(run.reproducible != Reproducible::Mesh || !config.model.qk_norm, "run.reproducible",
                "sums gradients in slices of heads; the gain of "
                "model.qk_norm is of all heads",
                "take \"layout\"");
  rules.require(run.reproducible != Reproducible::Mesh || config.model.kv_lora_rank <= 0,
                "run.reproducible",
                "sums gradients in slices of heads; the latents of "
                "model.kv_lora_rank are of all heads",
                "take \"layout\"");
  rules.require(run.reproducible != Reproducible::Mesh || !config.parallel.sequence,
                "run.reproducible",
                "with parallel.sequence = true would sum gradients of norms over micro-batches "
                "before tp ranks",
                "set parallel.sequence = false or take \"layout\"");
  rules.in_range("run.threads_per_rank", run.threads_per_rank, 0, 4097);
  rules.require(run.comm_timeout_s > 0.0, "run.comm_timeout_s", "must be positive", "try 60.0");
  rules.at_least("run.eval_every", run.eval_every, 0);
  rules.at_least("run.eval_sequences", run.eval_sequences, 1);
  rules.at_least("run.stop_patience", run.stop_patience, 0);
  rules.require(run.stop_patience == 0 || run.eval_every > 0, "run.stop_patience",
                "counts validations, and run.eval_every = 0 validates only at the last step",
                "set run.eval_every");
  rules.require(run.stop_patience == 0 || config.data.source == DataSource::Synthetic ||
                    !config.data.val.empty(),
                "run.stop_patience", "counts validations, and there is no validation data",
                "name a token file with data.val");
  rules.at_least("run.sample_every", run.sample_every, 0);
  rules.at_least("run.sample_tokens", run.sample_tokens, 0);
  rules.at_least("trace.first_step", config.trace.first_step, 1);
  rules.at_least("trace.steps", config.trace.steps, 0);
  rules.require(is_rank_list(config.trace.ranks), "trace.ranks",
                "must be rank numbers between commas", "try \"0,3\"");
  rules.at_least("run.histograms_every", run.histograms_every, 0);
  noise_scale_rules(rules, config);
  corruption_rules(rules, config);
  rules.in_range("run.prometheus_port", run.prometheus_port, 0, 65536);
  rules.at_least("run.metrics_bytes", run.metrics_bytes, 0);
}

}  // namespace

std::string ConfigProblem::message() const {
  return fmt::format("{} = {} {}; {}", key, value, rule, remedy);
}

namespace {

std::vector<ConfigProblem> broken_rules(const RunConfig& config,
                                        std::optional<int64_t> data_vocab_size) {
  ConfigRules rules(config);
  model_rules(rules, config.model);
  if (data_vocab_size) vocabulary_rules(rules, config.model, *data_vocab_size);
  batch_rules(rules, config);
  token_rules(rules, config);
  optim_rules(rules, config);
  muon_rules(rules, config);
  qk_clip_rules(rules, config);
  state_dtype_rules(rules, config);
  parallel_rules(rules, config, data_vocab_size.value_or(0));
  sum_tree_rules(rules, config);
  run_rules(rules, config);
  data_rules(rules, config.data);
  image_run_rules(rules, config);
  return rules.take();
}

}  // namespace

std::vector<ConfigProblem> validate(const RunConfig& config) {
  // A vocabulary that the configuration gives is known without the data.
  const bool has_vocabulary = config.model.vocab_size > 0;
  return broken_rules(config, has_vocabulary ? std::optional<int64_t>(0) : std::nullopt);
}

std::vector<ConfigProblem> validate_with_data(const RunConfig& config, int64_t data_vocab_size) {
  return broken_rules(config, data_vocab_size);
}

}  // namespace trireme
