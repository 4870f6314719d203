#pragma once

#include <cstdint>
#include <string>

#include "spec/run_config.h"

namespace trireme {

// A small run that validation and the planner accept: model, batch, every degree of up to six ranks
// and all that the laws of ARCHITECTURE.md say about layouts, drawn from the seed. Throws
// ContractError where a refusal is no answer for a user, or where too many draws are refused.
RunConfig random_layout(uint64_t seed);

// The command that runs it: what differs from configs/tiny-gpt2.toml as --set options.
std::string command_of(const RunConfig& config);

// The run whose bits the layout must repeat: one rank, or as many as share its layers and experts.
RunConfig bitwise_reference(const RunConfig& config);
// The same model and batch on one rank.
RunConfig on_one_rank(const RunConfig& config);

// False where the micro-batches that meet in the experts of data-parallel ranks depend on the
// schedule: there the layout has the bounds of on_one_rank alone.
bool has_bitwise_reference(const RunConfig& config);

}  // namespace trireme
