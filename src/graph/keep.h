#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "schema/stage_shape.h"

namespace trireme {

// What becomes of a value once F of its unit is over.
enum class Fate : uint8_t {
  Dropped,  // neither B nor W needs it
  Stored,   // from F to W
  Again,    // computed again before B, and before W if that is another action
};

// How a unit decides. Recompute::Fit names what is computed again one by one: bit i of `again`
// stands for keep_choices()[i].
struct KeepPolicy {
  Recompute recompute = Recompute::None;
  uint64_t again = 0;
};
inline KeepPolicy keep_policy_of(const StageShape& shape) { return {shape.recompute, shape.again}; }

// The decision for every value and op of a fused graph. Memory, traffic, prices and the executor
// read it.
struct Keep {
  std::vector<Fate> fates;             // [value]
  std::vector<bool> runs_again;        // [op]
  std::vector<bool> keeps_statistics;  // [op]: those of norms and attention are stored
};
Keep keep(const Graph& fused, const KeepPolicy& policy);

// Values that share one piece of memory: the outputs of one product side by side, and what is
// written in place. They are stored or computed again together.
struct KeepChoice {
  int op = -1;                  // which writes them first
  std::vector<ValueId> values;  // in the order in which they are written
};
// The pieces for which there is a choice, because B or W reads them, in the order of the graph. The
// input and the output of a unit are always stored, tokens and routes too.
std::vector<KeepChoice> keep_choices(const Graph& fused);
// Every choice at once.
uint64_t all_again(const Graph& fused);

// The same decision for the ops of the graph before `fuse`: [op of placed].
std::vector<bool> runs_again_before_fuse(const Graph& placed, const Graph& fused, const Keep& kept);

// Lines that list what is stored, what is computed again, and by which ops.
std::string to_string(const Graph& fused, const Keep& kept);

}  // namespace trireme
