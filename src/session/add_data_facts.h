#pragma once

#include "base/input_file.h"
#include "base/result.h"
#include "compile/run_plan.h"
#include "schema/run_config.h"

namespace trireme {

// Fills in what a plan takes from the training data: HostFacts::data_vocab_size and, with
// data.document_mask, HostFacts::document_keys. The latter is measured on up to 2^18 tokens, the
// same ones on every rank; it stays 0 (unknown) if no data are named or they cannot be read.
Status add_data_facts(const RunConfig& config, const OpenInput& open_input, HostFacts& host);

}  // namespace trireme
