#include "schema/run_config_validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <optional>

#include "base/input_limits.h"
#include "schema/batch.h"
#include "schema/config_rules.h"
#include "schema/model_rules.h"
#include "schema/optim_rules.h"
#include "schema/parallel_rules.h"
#include "schema/run_rules.h"
#include "schema/sum_tree_rules.h"

namespace trireme {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 31;
constexpr int64_t kMostBatchTokens = int64_t{1} << 40;

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
  const double tokens =
      double(sequences_of_microbatch(config)) * seq_len / double(config.parallel.cp);
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

// Refuses settings that do not go with batch norms over all images of a step.
void step_norm_rules(ConfigRules& rules, const RunConfig& config) {
  if (config.model.batch_norm == NormBatch::MicroBatch) return;
  const ParallelConfig& parallel = config.parallel;
  const auto need = [&](bool holds, const char* why, const std::string& remedy) {
    rules.require(holds, "model.batch_norm", why,
                  remedy + ", or model.batch_norm = \"micro_batch\"");
  };
  need(!cuts_image_rows(parallel.layers),
       "takes the sums of whole images, and \"spatial\" of parallel.layers cuts their rows",
       "take \"data\"");
  need(parallel.stage_dp.empty(), "joins the sums of all ranks of dp, which parallel.stage_dp cuts",
       "leave parallel.stage_dp out");
  need(config.run.replay_elsewhere_every == 0,
       "joins images in the order of the ranks, and run.replay_elsewhere_every lets ranks change "
       "places",
       "set run.replay_elsewhere_every = 0");
  need(config.run.noise_scale_every == 0,
       "lets the gradient of a part depend on all images, so that run.noise_scale_every has no "
       "independent parts to compare",
       "set run.noise_scale_every = 0");
  if (config.run.reproducible != Reproducible::Layout) return;
  need(parallel.tp == 1,
       "with run.reproducible = \"layout\" sums gradients by leaves of batch.micro_sequences "
       "images, and the ranks of parallel.tp share out all images of a rank of dp at once",
       "set run.reproducible = \"fixed\"");
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
  rules.require(config.model.image_size < 1 || config.data.crop_margin < config.model.image_size,
                "data.crop_margin",
                fmt::format("may move an image of model.image_size = {} out of sight",
                            config.model.image_size),
                "try 1");
  rules.require(config.parallel.cp == 1, "parallel.cp", "cannot cut an image", "set it to 1");
  const int64_t images = sequences_of_microbatch(config), tp = config.parallel.tp;
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
  step_norm_rules(rules, config);
}

void data_rules(ConfigRules& rules, const DataConfig& data) {
  for (const WeightedFile& file : data.train_mixture) {
    rules.require(!file.path.empty(), "data.train", "has a file without a name",
                  "name a token file of `trireme data prepare`");
    rules.require(file.weight > 0.0 && std::isfinite(file.weight), "data.train",
                  "has a weight that is not positive", "leave such a file out");
  }
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
