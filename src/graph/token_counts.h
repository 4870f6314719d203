#pragma once

#include "graph/graph.h"
#include "graph/model_shard.h"

namespace trireme {

// Tokens of a micro-batch that a rank of cp has, and the part of them that lies on its residual
// stream.
struct TokenCounts {
  TokenCounts(const ModelShard& shard, const StageShape& shape);
  int64_t sequences;
  int64_t all;
  int64_t residual;
  int64_t first;  // of the tokens that `residual` counts, within `all`
  bool is_split;  // each tp rank has its own part of the residual stream
  int tp, tp_rank;

  // Returns the rows of a value of a placed graph on this rank. Visits of experts are counted
  // elsewhere.
  int64_t rows_of(const Value& value) const;
  // Returns the rows of each image that this rank has, or all of them if it has whole images.
  IndexRange image_rows_of(const Value& value) const;
  // Returns the window of an op of a placed graph over what this rank has of the images.
  ImageWindow window_of(const Graph& graph, const Op& op) const;
};

}  // namespace trireme
