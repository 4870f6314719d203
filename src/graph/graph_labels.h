#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/model_shard.h"
#include "graph/place.h"

namespace trireme {

// What texts and pictures say about a graph of one model and one rank: the extents of one
// micro-batch, and how they lie over the mesh. Before `place` all extents are those of the whole.
class GraphLabels {
 public:
  // `placements`: [value]; empty for a graph that is not placed yet. Keeps references.
  GraphLabels(const Graph& graph, const std::vector<ValuePlacement>& placements,
              const ModelSpec& model, const StageShape& layout);

  // One text for each dim: "token 128", "head 2 of 4", and "visit <= 256" where the tokens decide.
  std::vector<std::string> dims(ValueId value) const;
  // "tp shard(1)" for every mesh axis inside a unit; none before `place`.
  std::vector<std::string> placement(ValueId value) const;
  // The same for the axes along which this layout has several ranks.
  std::vector<std::string> placement_over_ranks(ValueId value) const;

  // Whether the op is a redistribution over an axis of one rank.
  bool moves_nothing(const Op& op) const;
  // Says over which ranks the op gathers sums, such as "gathers sums over dp"; "": over none.
  std::string gathered_sums(const Op& op) const;

  // The parameters of the op that this rank holds, and how many it leaves to other ranks of ep.
  std::vector<ParamId> held_params(const Op& op) const;
  std::string param_dims(ParamId param) const;   // "head 2 of 4 head_width 16 x width 64"
  std::string param_shape(ParamId param) const;  // "32 x 64 of 64 x 64"

 private:
  struct Extent {
    int64_t count = 0;
    int64_t total = 0;
    bool is_limit = false;  // there may be fewer
  };
  Extent extent_of(const Value& value, size_t dim, const ValuePlacement* placement) const;
  Extent visits(const ValuePlacement* placement) const;
  std::string text_of(Axis axis, const Extent& extent) const;
  std::string dims_text(const std::vector<Dim>& dims) const;
  int ranks_along(MeshAxis axis) const;
  const ValuePlacement* placement_at(ValueId value) const;

  const Graph& graph_;
  const std::vector<ValuePlacement>& placements_;
  const ModelSpec& model_;
  const StageShape& layout_;
  ModelShard whole_;
  ModelShard shard_;  // the whole model before `place`
};

}  // namespace trireme
