#include "memory/unit_memory.h"

#include <map>
#include <set>
#include <utility>

#include "base/check.h"
#include "graph/backward_reads.h"
#include "memory/value_buffers.h"

namespace trireme {
namespace {

class UnitPlanner {
 public:
  UnitPlanner(const Graph& graph, const ModelShard& shard, const StageShape& shape,
              const Keep& kept, bool is_first)
      : graph_(graph),
        shard_(shard),
        shape_(shape),
        kept_(kept),
        is_first_(is_first),
        buffers_(graph, shard, shape, kept),
        tokens_(buffers_.tokens()),
        grads_(graph.values.size()) {
    memory_.ops.resize(graph.ops.size());
  }

  UnitMemory run() {
    list_op_tensors();
    flow_back();
    store_values();
    store_gradients();
    memory_.input = border(graph_.input);
    memory_.output = border(graph_.output);
    return std::move(memory_);
  }

 private:
  const Value& value(ValueId id) const { return graph_.values[size_t(id)]; }
  const Columns& columns(ValueId id) const { return buffers_.columns(id); }
  UnitBorder border(ValueId id) const {
    const Value& v = value(id);
    if (!is_matrix(v)) return {};
    return {buffers_.rows_of(v), buffers_.cols_of(v), v.dims.back() == Axis::Width};
  }
  Stored edge_matrix(const Value& value) const {
    const int64_t cols = buffers_.cols_of(value);
    return {
        Space::Scratch, buffers_.name_of_edge(value), shape_.compute, tokens_.all, cols, 0, cols};
  }

  // ---- tensors of ops

  void list_op_tensors() {
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      for (const OpTensor& tensor : op_tensors(graph_, graph_.ops[i], shard_, shape_)) {
        add_op_tensor(tensor, kept_.keeps_statistics[i]);
      }
    }
  }
  void add_op_tensor(const OpTensor& tensor, bool keeps_forward) {
    switch (tensor.lifetime) {
      case Lifetime::Kept:
        return add_tensor({Space::Saved, tensor.name, tensor.shape, tensor.dtype});
      case Lifetime::Forward:
        if (!keeps_forward) break;
        return add_tensor({Space::Saved, tensor.name, tensor.shape, tensor.dtype});
      case Lifetime::WeightGrad:
        return add_tensor({shape_.split_backward ? Space::WeightGrad : Space::Scratch, tensor.name,
                           tensor.shape, tensor.dtype, false, true});
      default:
        break;
    }
    add_tensor({Space::Scratch, tensor.name, tensor.shape, tensor.dtype,
                tensor.lifetime == Lifetime::Constant});
  }
  void add_tensor(UnitTensor tensor) {
    for (const UnitTensor& other : memory_.tensors) {
      if (other.space == tensor.space && other.name == tensor.name) return;
    }
    memory_.tensors.push_back(std::move(tensor));
  }

  // ---- gradients

  // The gradient of a value has the shape of the value's memory.
  Stored own_grad(ValueId id) {
    const Columns place = columns(id);
    const ValueBuffer& buffer = buffers_.buffer_of(id);
    switch (buffer.kind) {
      case ValueBuffer::Kind::Input:
        return whole(Space::InputGrad, buffer);
      case ValueBuffer::Kind::Output:
        return whole(Space::OutputGrad, buffer);
      default:
        break;
    }
    const bool is_edge = buffer.kind == ValueBuffer::Kind::Edge;
    const std::string name = is_edge ? buffer.name : "d" + buffer.name;
    if (!is_edge) own_grads_.insert({name, {buffer.rows, buffer.cols}});
    return {Space::Scratch, name,         shape_.compute, buffer.rows,
            place.cols,     place.column, buffer.cols};
  }
  Stored whole(Space space, const ValueBuffer& buffer) const {
    return {space, "", shape_.compute, buffer.rows, buffer.cols, 0, buffer.cols};
  }
  // Gradients that an op needs beside those of values.
  Stored grad_tensor(const std::string& name, int64_t rows, int64_t cols) {
    own_grads_.insert({name, {rows, cols}});
    return {Space::Scratch, name, shape_.compute, rows, cols, 0, cols};
  }

  // Nothing flows into tokens, or into what lies before the first unit.
  bool takes_gradient(ValueId id) {
    if (columns(id).buffer < 0) return false;
    if (is_of_samples(graph_, id)) return false;
    return id != graph_.input || !is_first_;
  }
  InputGrad write_grad(ValueId id) {
    if (!takes_gradient(id)) return {};
    const Stored addend = std::exchange(grads_[size_t(id)], own_grad(id));
    return {grads_[size_t(id)], addend};
  }
  // The gradient of the value is that of another one; a sum where it has one already.
  InputGrad alias_grad(ValueId id, const Stored& grad) {
    if (!takes_gradient(id)) return {};
    if (grads_[size_t(id)]) return write_grad(id);
    grads_[size_t(id)] = grad;
    return {};
  }

  void flow_back() {
    if (is_matrix(value(graph_.output))) {
      grads_[size_t(graph_.output)] = whole(Space::OutputGrad, buffers_.buffer_of(graph_.output));
    }
    for (size_t i = graph_.ops.size(); i-- > 0;) flow_back(graph_.ops[i], memory_.ops[i]);
    const Stored& arrived = grads_[size_t(graph_.input)];
    if (!is_first_ && arrived.space != Space::InputGrad) memory_.copied_input_grad = arrived;
  }

  void flow_back(const Op& op, OpMemory& m) {
    for (const ValueId id : op.outputs) m.output_grads.push_back(grads_[size_t(id)]);
    m.all_output_grads = m.output_grads.front();
    if (op.outputs.size() > 1 && m.all_output_grads) {
      const Stored whole = m.all_output_grads;
      m.all_output_grads.column = 0;
      m.all_output_grads.cols = whole.stride;
    }
    m.dropped_grad = m.gathered_grad = m.all_output_grads;
    if (op.leave) flow_back_over_edge(op, m);
    if (op.addend >= 0) grads_[size_t(op.addend)] = m.gathered_grad;
    if (weight_grad_reads_output_grad(graph_, op)) read_by_weights_.insert(m.gathered_grad.tensor);
    m.input_grads.resize(op.inputs.size());
    switch (op.kind) {
      case OpKind::CrossEntropy:  // computed in F
        TRIREME_CHECK(!grads_[size_t(op.inputs.front())], "a loss is the last to read its input");
        grads_[size_t(op.inputs.front())] =
            saved_matrix(ahead_prefix(op) + "head.dh_TC", tokens_.residual);
        m.input_grads.front() = {grads_[size_t(op.inputs.front())], {}};
        m.gathered_input_grad = tokens_.is_split ? scratch_matrix("head.dh_full_TC", tokens_.all)
                                                 : m.input_grads.front().dest;
        return;
      case OpKind::Add:
        for (size_t i = 0; i < op.inputs.size(); ++i) {
          m.input_grads[i] = alias_grad(op.inputs[i], m.output_grads.front());
        }
        return;
      default:
        for (size_t i = 0; i < op.inputs.size(); ++i) m.input_grads[i] = write_grad(op.inputs[i]);
        if (op.inputs.empty()) return;
        m.gathered_input_grad = m.input_grads.front().dest;
        if (op.enter && tokens_.is_split) {
          buffers_.edge_buffer(value(op.inputs.front()));
          m.gathered_input_grad = edge_matrix(value(op.inputs.front()));
        }
    }
  }

  // Through dropout and back over the ranks, to the product whose output left.
  void flow_back_over_edge(const Op& op, OpMemory& m) {
    const Stored dy = m.output_grads.front();
    // A unit with nothing before it may overwrite gradients that are its own.
    const bool may_overwrite = op.late_residual < 0 && dy.space != Space::OutputGrad;
    if (!op.dropout.empty() && !may_overwrite) {
      m.dropped_grad = grad_tensor("d" + op.dropout + "_TC", dy.rows, dy.cols);
    }
    m.gathered_grad = m.dropped_grad;
    if (tokens_.is_split) {
      // The whole backward pass of a first unit is W, which follows at once.
      const bool is_table = is_first_ && op.kind == OpKind::Lookup;
      if (is_table) buffers_.edge_buffer(value(op.outputs.front()));
      m.gathered_grad = is_table
                            ? scratch_matrix(kEdge, tokens_.all)
                            : grad_tensor("d" + op.name + ".gathered_TC", tokens_.all, dy.cols);
    }
    if (op.late_residual >= 0) {
      const InputGrad sum = alias_grad(op.late_residual, dy);
      TRIREME_CHECK(!sum.dest, "a residual is read once more behind the sum that it is part of");
    }
  }

  Stored scratch_matrix(const std::string& name, int64_t rows) const {
    return {Space::Scratch, name, shape_.compute, rows, shard_.d_model, 0, shard_.d_model};
  }
  Stored saved_matrix(const std::string& name, int64_t rows) const {
    return {Space::Saved, name, shape_.compute, rows, shard_.d_model, 0, shard_.d_model};
  }

  // ---- memory of values and gradients

  Stored stored(ValueId id) {
    if (id < 0 || columns(id).buffer < 0) return {};
    const Columns place = columns(id);
    const ValueBuffer& buffer = buffers_.buffer_of(id);
    if (buffer.kind == ValueBuffer::Kind::Input) return whole(Space::Input, buffer);
    if (buffer.kind == ValueBuffer::Kind::Output) return whole(Space::Output, buffer);
    const bool is_saved = buffer.fate == Fate::Stored;
    const std::string& name = is_saved ? buffer.name : scratch_names_.at(size_t(place.buffer));
    return {is_saved ? Space::Saved : Space::Scratch,
            name,
            shape_.compute,
            buffer.rows,
            place.cols,
            place.column,
            buffer.cols};
  }

  // A value that is neither stored nor computed again lives in F alone. It shares the memory of a
  // gradient of its shape that lives in B alone.
  std::string scratch_name(const ValueBuffer& buffer) {
    if (buffer.kind != ValueBuffer::Kind::Own || buffer.fate == Fate::Again) return buffer.name;
    for (const auto& [name, extent] : own_grads_) {
      const bool fits = extent == std::pair{buffer.rows, buffer.cols};
      if (fits && read_by_weights_.count(name) == 0 && taken_.insert(name).second) return name;
    }
    return buffer.name;
  }

  void store_values() {
    for (size_t b = 0; b < buffers_.all().size(); ++b) {
      const ValueBuffer& buffer = buffers_.all()[b];
      if (buffer.kind == ValueBuffer::Kind::Input || buffer.kind == ValueBuffer::Kind::Output) {
        continue;
      }
      const Shape shape{buffer.rows, buffer.cols};
      if (buffer.fate == Fate::Stored) {
        add_tensor({Space::Saved, buffer.name, shape, shape_.compute});
        continue;
      }
      scratch_names_[b] = scratch_name(buffer);
      add_tensor({Space::Scratch, scratch_names_[b], shape, shape_.compute});
    }
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      const Op& op = graph_.ops[i];
      OpMemory& m = memory_.ops[i];
      for (const ValueId id : op.inputs) m.inputs.push_back(stored(id));
      for (const ValueId id : op.outputs) m.outputs.push_back(stored(id));
      m.all_outputs = m.outputs.front();
      if (op.outputs.size() > 1) {
        m.all_outputs.column = 0;
        m.all_outputs.cols = m.all_outputs.stride;
      }
      m.gathered_input = op.enter && tokens_.is_split ? edge_matrix(value(op.inputs.front()))
                         : op.inputs.empty()          ? Stored{}
                                                      : m.inputs.front();
      if (op.enter && tokens_.is_split) add_edge(value(op.inputs.front()));
      m.partial =
          op.leave && tokens_.is_split ? edge_matrix(value(op.outputs.front())) : m.all_outputs;
      if (op.leave && tokens_.is_split) add_edge(value(op.outputs.front()));
      m.early_residual = stored(op.early_residual);
      m.late_residual = stored(op.late_residual);
    }
  }
  void add_edge(const Value& value) {
    const Shape shape{tokens_.all, buffers_.cols_of(value)};
    add_tensor({Space::Scratch, buffers_.name_of_edge(value), shape, shape_.compute});
  }

  // Gradients that W reads are kept from B to W if these are separate actions. A unit with nothing
  // before it does all of its backward pass in W, so its gradients stay in scratch.
  void store_gradients() {
    const bool is_split = shape_.split_backward && !is_first_;
    const auto lies_in_weight_grads = [&](const std::string& name) {
      return is_split && own_grads_.count(name) > 0 && read_by_weights_.count(name) > 0;
    };
    const auto move = [&](Stored& grad) {
      if (grad.space != Space::Scratch || !lies_in_weight_grads(grad.tensor)) return;
      grad.space = Space::WeightGrad;
    };
    for (OpMemory& m : memory_.ops) {
      for (Stored& grad : m.output_grads) move(grad);
      for (Stored* grad :
           {&m.all_output_grads, &m.dropped_grad, &m.gathered_grad, &m.gathered_input_grad}) {
        move(*grad);
      }
      for (InputGrad& grad : m.input_grads) {
        move(grad.dest);
        move(grad.addend);
      }
    }
    move(memory_.copied_input_grad);
    for (const auto& [name, extent] : own_grads_) {
      const bool in_weight_grads = lies_in_weight_grads(name);
      add_tensor({in_weight_grads ? Space::WeightGrad : Space::Scratch, name,
                  Shape{extent.first, extent.second}, shape_.compute, false, true});
    }
  }

  const Graph& graph_;
  const ModelShard& shard_;
  const StageShape& shape_;
  const Keep& kept_;
  bool is_first_;
  ValueBuffers buffers_;
  const TokenCounts& tokens_;                                     // of buffers_
  std::vector<Stored> grads_;                                     // [value]: as far as B has come
  std::map<std::string, std::pair<int64_t, int64_t>> own_grads_;  // name to rows and columns
  std::set<std::string> read_by_weights_;                         // names of gradients
  std::set<std::string> taken_;
  std::map<size_t, std::string> scratch_names_;  // [buffer]
  UnitMemory memory_;
};

}  // namespace

UnitMemory unit_memory(const Graph& fused, const ModelShard& shard, const StageShape& shape,
                       const Keep& kept, bool is_first) {
  return UnitPlanner(fused, shard, shape, kept, is_first).run();
}

}  // namespace trireme
