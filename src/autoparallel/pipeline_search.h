#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "autoparallel/seconds_bounds.h"

namespace trireme {

inline constexpr int kNoStage = -1;

// Stages take the operators of a model in order. Each stage has a sub-mesh of its own, and the
// sub-meshes together have all ranks of the cluster.
struct PipelineProblem {
  int num_operators = 1;
  int num_ranks = 1;
  std::vector<int> mesh_sizes;  // ranks that a stage may have, rising
  int64_t num_microbatches = 1;
  int most_stages = 1;
  // Returns the seconds of a micro-batch in a stage of the operators [first, last] on a mesh of
  // mesh_sizes[size] ranks that holds the activations of `in_flight` micro-batches at a time;
  // infinity if they do not fit. It never falls with `last` or `in_flight`. The devices of the
  // ranks are of this mix.
  std::function<double(int first, int last, int size, int in_flight, int mix)> seconds;
  // Returns bounds of the least seconds of such a stage, whose lower one has the same law. Empty:
  // `seconds` is cheap. Else `seconds` is asked only for stages that the best split may have and
  // whose bounds differ by more than the share `tolerance`. Its answer may be above the least
  // seconds by this share; then the step of the split is at most 1 + tolerance times the least one.
  std::function<SecondsBounds(int first, int last, int size, int in_flight, int mix)> bounds = {};
  double tolerance = 0.0;
  // Returns the mix of devices, from 0 on, of mesh_sizes[size] ranks from `first_rank` on. The
  // first stage has the first ranks. kNoStage: no stage can have these ranks. Empty: all ranks have
  // the same device.
  std::function<int(int first_rank, int size)> mix_of = {};
  // Of two bounds of the slowest stage that differ by less than this share, only one is tried. 0:
  // the search is exact.
  double gap = 0.0;
};

struct PipelineStage {
  int first = 0, last = 0;  // operator
  int size = 0;             // index in mesh_sizes
  double seconds = 0.0;
};

struct PipelineSplit {
  std::vector<PipelineStage> stages;
  double step_s = 0.0;  // sum of all stages + (micro-batches - 1) x the slowest
};

// The split of the least step_s in which every rank has work (Zheng et al. 2022, section 5.1):
//   F(s, k, d) = min over the last operator i and the mesh n of  t(k..i, n, s) + F(s-1, i+1, d-n)
// for every bound of the slowest stage, the lowest first, until no higher bound can win. Stage s
// from the end holds min(s, micro-batches) activations, as 1F1B does. Nullopt if nothing fits.
std::optional<PipelineSplit> split_pipeline(const PipelineProblem& problem);

}  // namespace trireme
