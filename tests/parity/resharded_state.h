#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/load.h"
#include "compile/run_plan.h"
#include "train/engine.h"

// What the tests share that load the state of one layout into another.
namespace trireme {

// All tensors of a checkpoint, by name.
using WholeState = std::map<std::string, std::vector<float>>;

// Every layout starts from its own seed, so no two of them save the same state. Only the mode
// "fixed" allows three ranks.
RunPlan seeded_plan(RunConfig config, uint64_t seed);

WholeState state_in(const Checkpoint& checkpoint);
int64_t num_elements(const WholeState& state);

// Compares what one rank owns, also what another rank writes to checkpoints. Returns the number of
// elements that this rank would write; -1 if an element differs.
int64_t num_equal(const Engine& engine, const WholeState& whole);

}  // namespace trireme
