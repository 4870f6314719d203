#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/load.h"
#include "interchange/interchange_model.h"

namespace trireme {

// Result of a self-check: how the logits of a few tokens differ.
struct LogitsCheck {
  double greatest_difference = 0.0;
  double greatest_logit = 0.0;
  int64_t num_logits = 0;
};

// Compares the probe logits of two models with the same vocabulary. A NaN counts as an infinite
// difference.
LogitsCheck compare_logits(const Weights& a, const Weights& b, int num_threads);

// Reads the model of a checkpoint. `config` is the [model] section of its configuration.
Result<InterchangeModel> read_checkpoint_model(const Checkpoint& checkpoint,
                                               const ModelConfig& config, int num_threads);

// Writes the model as a checkpoint at step 0. The folder must be absent or empty.
struct CheckpointModelOptions {
  std::string config_toml;  // becomes the configuration of the checkpoint
  // True: adds AdamW's moments as zeros, so that training can resume from the checkpoint. False: no
  // optimizer state is written.
  bool is_trainable = false;
};
Status write_checkpoint_model(const InterchangeModel& model, const CheckpointModelOptions& options,
                              const std::string& folder);

// Checks that every parameter of `written` equals that of `original` within the rounding of a
// dtype. Parameters that only `written` has (biases that the format requires) must have no effect.
// The error names the first wrong parameter.
enum class Rounding { None, F16, BF16, Q8_0 };
Status compare_weights(const Weights& original, const Weights& written, Rounding rounding);

}  // namespace trireme
