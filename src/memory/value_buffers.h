#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/keep.h"
#include "graph/model_shard.h"
#include "graph/op_tensors.h"

namespace trireme {

// A piece of memory for one value, for the outputs of one product side by side, or for a value that
// is changed in place.
struct ValueBuffer {
  // Edge: all tokens of values whose tokens the ranks of tp share out.
  enum class Kind { Own, Edge, Input, Output };
  Kind kind = Kind::Own;
  std::string name;
  int64_t rows = 0;
  int64_t cols = 0;
  Fate fate = Fate::Dropped;
};

// The columns of a buffer in which a value lies.
struct Columns {
  int buffer = -1;  // -1: the value has no memory of its own
  int64_t column = 0;
  int64_t cols = 0;
};

// The buffers in which F puts the values of a fused graph.
class ValueBuffers {
 public:
  ValueBuffers(const Graph& graph, const ModelShard& shard, const StageShape& shape,
               const Keep& kept);

  const std::vector<ValueBuffer>& all() const { return buffers_; }
  const Columns& columns(ValueId id) const { return columns_[size_t(id)]; }
  // The value must have memory.
  const ValueBuffer& buffer_of(ValueId id) const { return buffers_[size_t(columns(id).buffer)]; }
  const TokenCounts& tokens() const { return tokens_; }

  int64_t rows_of(const Value& value) const;
  int64_t cols_of(const Value& value) const;
  // Returns the name of the buffer in which all tokens of a value are gathered. Values of the
  // residual stream share one buffer, one after the other; a narrower value has a buffer of its
  // own.
  std::string name_of_edge(const Value& value) const;
  // Returns the index of this buffer, which is added if it does not exist.
  int edge_buffer(const Value& value);

 private:
  const Value& value(ValueId id) const { return graph_.values[size_t(id)]; }
  Columns& place_of(ValueId id) { return columns_[size_t(id)]; }
  int add_buffer(ValueBuffer buffer);
  void place_values();
  void place_outputs(const Op& op);
  bool keeps_tokens(const Op& op) const;
  ValueId sum_of(ValueId addend) const;

  const Graph& graph_;
  const ModelShard& shard_;
  const Keep& kept_;
  const TokenCounts tokens_;
  std::vector<ValueBuffer> buffers_;
  std::vector<Columns> columns_;  // [value]
};

// Scratch for all tokens of the residual stream.
inline constexpr const char* kEdge = "edge_TC";

}  // namespace trireme
