#pragma once

#include <string>
#include <vector>

#include "compile/run_plan.h"

namespace trireme {

// What may change of a run without changing what is trained: how its ranks share the work.
struct LayoutChoice {
  Mesh mesh;
  int zero = 0;
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  int chunks = 0;
  int64_t micro_sequences = 1;
  Recompute recompute = Recompute::None;

  friend bool operator==(const LayoutChoice&, const LayoutChoice&) = default;
};

RunConfig with_layout(RunConfig config, const LayoutChoice& layout);

// "tp 8, pp 4, dp 2, ZeRO 1, interleaved x 2, micro 1, full": what is not at its least.
std::string describe(const LayoutChoice& layout);

// The options of the command line that make `after` of `before`.
std::string set_options(const RunConfig& before, const RunConfig& after);
// The same for a layout of `config`.
std::string set_options(const LayoutChoice& layout, int64_t global_sequences,
                        const RunConfig& config);

// All ways to lay `num_ranks` out over the axes.
std::vector<Mesh> meshes_of(int num_ranks, const ModelSpec& model);

// On one mesh every ZeRO level, schedule with its chunks, micro-batch and recomputation, whether
// they can be or not.
std::vector<LayoutChoice> layouts_of(const Mesh& mesh, const ModelSpec& model,
                                     int64_t global_sequences);

}  // namespace trireme
