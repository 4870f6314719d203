#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/load.h"
#include "interchange/interchange_model.h"

namespace trireme {

// What a self-check found: the logits of a few tokens, before and after.
struct LogitsCheck {
  double greatest_difference = 0.0;
  double greatest_logit = 0.0;
  int64_t num_logits = 0;
};

// Compares the probe logits of two models of one vocabulary. A NaN counts as infinitely different.
LogitsCheck compare_logits(const Weights& a, const Weights& b, int num_threads);

// The model of a checkpoint; `config` is the [model] section of its configuration.
Result<InterchangeModel> read_checkpoint_model(const Checkpoint& checkpoint,
                                               const ModelConfig& config, int num_threads);

// Writes the model as a checkpoint at step 0; the folder must not exist or be empty.
struct CheckpointModelOptions {
  std::string config_toml;  // becomes its configuration
  // AdamW's moments, zeros, so that training can go on from here; else there is no optimizer state.
  bool is_trainable = false;
};
Status write_checkpoint_model(const InterchangeModel& model, const CheckpointModelOptions& options,
                              const std::string& folder);

// Every parameter of `written` is `original` to within the rounding of a dtype; what only `written`
// has (biases that the format demands) is what changes nothing. Says which one is not.
enum class Rounding { None, F16, BF16, Q8_0 };
Status compare_weights(const Weights& original, const Weights& written, Rounding rounding);

}  // namespace trireme
