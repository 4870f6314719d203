#pragma once

#include <random>
#include <string>

#include "schema/run_config.h"

namespace trireme {

// Planning: 1 to 16 ranks, over all keys of RUN.toml. In two of three runs some fields are then
// changed at random, so that the run is nearly valid. Training: 2 to 6 ranks, over the keys that
// the laws of ARCHITECTURE.md mention.
enum class DrawnFor { Planning, Training };

// Draws a run of a tiny model: `base` with other values. The layout fits the model in most runs.
RunConfig random_run(std::mt19937_64& random, const RunConfig& base, DrawnFor use);

// The --set options that make the run of `base`.
std::string overrides_of(const RunConfig& config, const RunConfig& base = {});

}  // namespace trireme
