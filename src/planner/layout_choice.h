#pragma once

#include <string>
#include <vector>

#include "compile/run_plan.h"

namespace trireme {

// The settings of a run that do not change what is trained: how its ranks share the work.
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

// Returns text such as "tp 8, pp 4, dp 2, ZeRO 1, interleaved x 2, micro 1, full"; settings at
// their lowest value are left out.
std::string describe(const LayoutChoice& layout);

// Returns the command-line options that turn `before` into `after`.
std::string set_options(const RunConfig& before, const RunConfig& after);
// Returns the options that give `config` this layout.
std::string set_options(const LayoutChoice& layout, int64_t global_sequences,
                        const RunConfig& config);

// Returns every mesh of `num_ranks` ranks.
std::vector<Mesh> meshes_of(int num_ranks, const ModelSpec& model);

// Returns the policies of recomputation that a search tries for a configured one. "fit" is tried
// alone: it finds a set of values for each layout.
std::vector<Recompute> recomputes_of(Recompute configured);

// Returns every combination of ZeRO level, schedule, chunks, micro-batch and recomputation on one
// mesh. Some of them may be infeasible.
std::vector<LayoutChoice> layouts_of(const Mesh& mesh, const ModelSpec& model,
                                     int64_t global_sequences,
                                     const std::vector<Recompute>& recomputes);

}  // namespace trireme
