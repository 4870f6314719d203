#pragma once

#include "base/input_file.h"
#include "base/result.h"
#include "compile/run_plan.h"
#include "schema/run_config.h"

namespace trireme {

// Measures HostFacts::document_keys on 2^18 tokens of the training data, or on one sequence if it
// is longer, the same ones on every rank. The error says why that cannot be done: no data are
// named, they cannot be read, or the token that ends a document is unknown.
Result<double> measure_document_keys(const RunConfig& config, const ModelSpec& model,
                                     const OpenInput& open_input);

// Fills in what a plan takes from the training data: HostFacts::data_vocab_size and, with
// data.document_mask, HostFacts::document_keys, which is 0 (unknown) if it cannot be measured.
Status add_data_facts(const RunConfig& config, const OpenInput& open_input, HostFacts& host);

}  // namespace trireme
