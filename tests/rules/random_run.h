#pragma once

#include <cstdint>
#include <string>

#include "schema/run_config.h"

namespace trireme {

// A run of a tiny model on 1 to 16 ranks, drawn from the seed over all keys of RUN.toml. The layout
// fits the model in most runs. In two of three runs some fields are then changed at random, so that
// the run is nearly valid.
RunConfig random_run(uint64_t seed);

// The --set options that make the run of the default configuration.
std::string overrides_of(const RunConfig& config);

}  // namespace trireme
