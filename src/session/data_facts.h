#pragma once

#include "base/input_file.h"
#include "observe/summary.h"
#include "schema/run_config.h"

namespace trireme {

// Reads the headers of the configured token files, and up to 2^20 tokens of each for the baselines.
// Leaves out what cannot be read. `vocab_size` is that of the model.
DataFacts data_facts(const RunConfig& config, int64_t vocab_size, const OpenInput& open_input = {});

}  // namespace trireme
