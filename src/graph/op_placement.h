#pragma once

#include <vector>

#include "graph/graph.h"
#include "schema/model_spec.h"
#include "schema/stage_shape.h"

namespace trireme {

// The mesh axes over which `place` redistributes values inside a unit. Data parallelism and
// pipelines see whole units.
inline constexpr MeshAxis kAxesInside[] = {MeshAxis::Tp, MeshAxis::Cp, MeshAxis::Ep};

// How an op may lie over the ranks of one mesh axis: what it needs of its inputs, and what it makes
// of its outputs. shard(0) parts rows, shard(1) parts columns, rows by expert, or the rows of
// pixels of each image.
struct Strategy {
  std::vector<Placement> inputs;
  std::vector<Placement> outputs;
};

// The strategies of an op over one mesh axis, the usual one first; at least one. They depend on the
// axes of its tensors and on the layout, never on a degree.
std::vector<Strategy> strategies_of(const Graph& graph, const Op& op, MeshAxis axis,
                                    const StageShape& layout);
// All ranks compute the whole op, and nothing is shared out. No layout of a run does so; the search
// of layouts by op (autoparallel) may.
Strategy whole_strategy(const Op& op);
// The strategy whose inputs lie as they do; the usual one where there is none.
Strategy choose_strategy(std::vector<Strategy> strategies, const std::vector<Placement>& inputs);

// How attention reaches the keys of its queries: every rank has whole sequences, keys and values go
// round a ring, or an all-to-all brings all tokens of some heads together.
enum class ContextStrategy : uint8_t { WholeSequences, Ring, AllToAll };
ContextStrategy context_strategy(const StageShape& layout);
// Whether an expert with a capacity may refuse a visit for one that an earlier token of another
// rank has made.
bool counts_earlier_visits(const ModelSpec& model, const StageShape& layout);

// How rows reach their experts: every rank has all experts, or an all-to-all sends each row to the
// rank that has its expert.
enum class ExpertStrategy : uint8_t { AllExperts, AllToAll };
ExpertStrategy expert_strategy(const StageShape& layout);

// How the residual stream lies over the tp ranks: its tokens are parts with sequence parallelism.
Placement residual_placement(const StageShape& layout);
// Returns how the values between the ops of one unit lie over the tp ranks. Each rank has some rows
// of its images if its convolutions say so (layer_strategy.h).
Placement stream_placement(const Graph& unit, const StageShape& layout);

// True if the tp ranks share out this axis, unless its dim says that they do not (Dim::is_whole).
bool is_cut_by_tp(Axis axis);
inline bool is_cut(const Dim& dim) { return is_cut_by_tp(dim.axis) && !dim.is_whole; }
// True if each tp rank has a part of the value's columns.
bool has_cut_columns(const Value& value);
// Over the tp ranks: a part of the rows, a part of the columns, or the whole parameter.
Placement placement_of(const Param& param);
// True if the gradient of a parameter of the op, which every tp rank holds, is one addend of a sum
// over these ranks.
bool grad_is_addend(const Op& op, const Param& param, const Strategy& over_tp);
// True if the op gathers sums over the ranks of tp or dp by itself. A batch norm does so if each
// rank has a part of the images of its batch, or of their rows, because its statistics are those of
// the batch. The ranks of dp have a part each of all images of a step.
bool gathers_sums(const Graph& graph, const Op& op, MeshAxis axis);

}  // namespace trireme
