#include "memory/value_buffers.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "graph/axis_part.h"

namespace trireme {
namespace {

std::string name_of_buffer(const Value& value) {
  std::string name = value.name + "_";
  for (const Dim& dim : value.dims) {
    name += letter_of(dim.axis);
    // Units have images of several shapes, and scratch of one name is one piece.
    if (dim.axis > Axis::Sample) name += std::to_string(dim.extent);
  }
  // Ranks that share out the rows of images have other parts of the same images.
  if (lies_by_rows(value)) name += ".rows";
  if (value.placement.tp.kind == Placement::Kind::Halo) {
    const RowWindow& window = value.placement.tp.window;
    name += fmt::format("{}s{}p{}", window.size, window.stride, window.padding);
  }
  return name;
}

}  // namespace

ValueBuffers::ValueBuffers(const Graph& graph, const ModelShard& shard, const StageShape& shape,
                           const Keep& kept)
    : graph_(graph),
      shard_(shard),
      kept_(kept),
      tokens_(shard, shape),
      columns_(graph.values.size()) {
  place_values();
}

int64_t ValueBuffers::rows_of(const Value& value) const {
  if (value.dims.front() == Axis::Visit) return shard_.held_rows(tokens_.all);
  return tokens_.rows_of(value);
}

int64_t ValueBuffers::cols_of(const Value& value) const {
  return part_of(value.column_dims(), shard_).count;
}

int ValueBuffers::add_buffer(ValueBuffer buffer) {
  buffers_.push_back(std::move(buffer));
  return int(buffers_.size()) - 1;
}

std::string ValueBuffers::name_of_edge(const Value& value) const {
  return value.dims.back() == Axis::Width ? kEdge : "edge." + name_of_buffer(value);
}

int ValueBuffers::edge_buffer(const Value& value) {
  const std::string name = name_of_edge(value);
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_[i].kind == ValueBuffer::Kind::Edge && buffers_[i].name == name) return int(i);
  }
  return add_buffer({ValueBuffer::Kind::Edge, name, tokens_.all, cols_of(value)});
}

void ValueBuffers::place_values() {
  const Value& input = value(graph_.input);
  const int64_t width = is_matrix(input) ? cols_of(input) : 1;
  place_of(graph_.input) = {
      add_buffer({ValueBuffer::Kind::Input, input.name, rows_of(input), width, Fate::Stored}), 0,
      width};
  std::vector<ValueId> addends;
  for (const Op& op : graph_.ops) {
    const bool is_in_place = op.kind == OpKind::Rope || keeps_tokens(op);
    if (is_in_place) {
      for (size_t i = 0; i < op.outputs.size(); ++i) {
        place_of(op.outputs[i]) = columns(op.inputs[i]);
      }
      continue;
    }
    if (gathers(op)) {
      const Value& gathered = value(op.outputs.front());
      place_of(op.outputs.front()) = {edge_buffer(gathered), 0, cols_of(gathered)};
      continue;
    }
    if (is_addend(value(op.outputs.front()))) {
      addends.push_back(op.outputs.front());
      continue;
    }
    place_outputs(op);
  }
  // An addend lies where the sum is made.
  for (auto addend = addends.rbegin(); addend != addends.rend(); ++addend) {
    place_of(*addend) = tokens_.is_split
                            ? Columns{edge_buffer(value(*addend)), 0, cols_of(value(*addend))}
                            : columns(sum_of(*addend));
  }
}

// A redistribution that leaves every number where it is.
bool ValueBuffers::keeps_tokens(const Op& op) const { return gathers(op) && !tokens_.is_split; }

ValueId ValueBuffers::sum_of(ValueId addend) const {
  for (const Op& op : graph_.ops) {
    if (reads(op, addend)) return op.outputs.front();
  }
  TRIREME_CHECK(false, "nothing sums " + value(addend).name);
}

void ValueBuffers::place_outputs(const Op& op) {
  int64_t cols = 0;
  for (const ValueId id : op.outputs) {
    if (is_matrix(value(id))) cols += cols_of(value(id));
  }
  if (cols == 0) return;
  const Value& first = value(op.outputs.front());
  const bool is_output = op.outputs.front() == graph_.output;
  const int buffer = add_buffer({is_output ? ValueBuffer::Kind::Output : ValueBuffer::Kind::Own,
                                 name_of_buffer(first), rows_of(first), cols,
                                 kept_.fates[size_t(op.outputs.front())]});
  int64_t column = 0;
  for (const ValueId id : op.outputs) {
    if (!is_matrix(value(id))) continue;
    place_of(id) = {buffer, column, cols_of(value(id))};
    column += cols_of(value(id));
  }
}

}  // namespace trireme
