#pragma once

#include <cstdint>
#include <string>

#include "schema/run_config.h"

namespace trireme {

// Draws a small run from the seed that validation and the planner accept: model, batch, every
// degree of up to six ranks, and all settings that the laws of ARCHITECTURE.md mention. Throws
// ContractError if a refusal would not help a user, or if too many draws are refused.
RunConfig random_layout(uint64_t seed);

// Returns the command that runs it: its differences from configs/tiny-gpt2.toml as --set options.
std::string command_of(const RunConfig& config);

// Returns the run whose bits the layout must repeat: one rank, or as many as share its layers and
// experts.
RunConfig bitwise_reference(const RunConfig& config);
// Returns the same model and batch on one rank.
RunConfig on_one_rank(const RunConfig& config);

// Returns false if the micro-batches that meet in the experts of data-parallel ranks depend on the
// schedule or the place, or if sums follow the tp degrees of places that differ. Then the layout
// only has to be within the bounds of on_one_rank.
bool has_bitwise_reference(const RunConfig& config);

}  // namespace trireme
