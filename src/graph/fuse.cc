#include "graph/fuse.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "base/check.h"

namespace trireme {
namespace {

bool is_one_of(OpKind kind, std::initializer_list<OpKind> kinds) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

// Ops are marked as removed while patterns are matched, so that pointers to them stay valid.
class Fuser {
 public:
  explicit Fuser(Graph graph) : graph_(std::move(graph)), is_removed_(graph_.ops.size(), false) {}

  Graph run() {
    for (Op& op : graph_.ops) join_inner_redistribution(op);
    for (Op& op : graph_.ops) join_router(op);
    for (Op& op : graph_.ops) join_loss(op);
    for (Op& op : graph_.ops) join_entering(op);
    for (Op& op : graph_.ops) join_leaving(op);
    for (Op& op : graph_.ops) join_dropout(op);
    for (Op& op : graph_.ops) join_residual(op);
    return finished();
  }

 private:
  bool is_alive(const Op& op) const { return !is_removed_[size_t(&op - graph_.ops.data())]; }
  void remove(const Op& op) { is_removed_[size_t(&op - graph_.ops.data())] = true; }

  Op* producer(ValueId value) {
    for (Op& op : graph_.ops) {
      if (is_alive(op) && std::count(op.outputs.begin(), op.outputs.end(), value) > 0) return &op;
    }
    return nullptr;
  }
  std::vector<Op*> readers(ValueId value) {
    std::vector<Op*> found;
    for (Op& op : graph_.ops) {
      if (is_alive(op) && reads(op, value)) found.push_back(&op);
    }
    return found;
  }
  bool has_one_reader(ValueId value) {
    return value != graph_.output && readers(value).size() == 1;
  }
  // All readers of `old` read `value` instead.
  void replace_reads(ValueId old, ValueId value) {
    for (Op& op : graph_.ops) std::replace(op.inputs.begin(), op.inputs.end(), old, value);
    if (graph_.output == old) graph_.output = value;
  }

  // Attention and the exchange with experts redistribute over cp and ep themselves. What comes out
  // of such an op has the placement behind the redistribution, what goes in the one before.
  void join_inner_redistribution(Op& op) {
    if (op.kind != OpKind::Redistribute || op.axis == MeshAxis::Tp) return;
    const ValueId before = op.inputs.front(), after = op.outputs.front();
    Op* made_by = producer(before);
    remove(op);
    if (made_by != nullptr &&
        is_one_of(made_by->kind, {OpKind::Attention, OpKind::Dispatch, OpKind::Count})) {
      std::replace(made_by->outputs.begin(), made_by->outputs.end(), before, after);
    } else {
      replace_reads(after, before);
    }
  }

  void join_router(Op& choose) {
    if (choose.kind != OpKind::Choose) return;
    Op* route = producer(choose.inputs[0]);
    Op* count = producer(choose.inputs[1]);
    route->params.insert(route->params.end(), choose.params.begin(), choose.params.end());
    route->outputs = choose.outputs;
    remove(*count);
    remove(choose);
  }

  void join_loss(Op& loss) {
    if (loss.kind != OpKind::CrossEntropy || !loss.params.empty()) return;
    Op* joined = producer(loss.inputs.front());
    if (joined->kind == OpKind::Redistribute) {
      remove(*joined);
      joined = producer(joined->inputs.front());
    }
    loss.inputs = joined->inputs;
    loss.params = joined->params;
    loss.slices = joined->slices;
    remove(*joined);
  }

  void join_entering(Op& op) {
    if (!is_alive(op) || op.kind != OpKind::Redistribute) return;
    if (op.change.to != Placement::replicate() || !has_one_reader(op.outputs.front())) return;
    Op* reader = readers(op.outputs.front()).front();
    if (!is_one_of(reader->kind, {OpKind::Linear, OpKind::CrossEntropy})) return;
    reader->inputs = op.inputs;
    reader->enter = EdgeChange{op.change, op.in_pieces};
    remove(op);
  }

  void join_leaving(Op& op) {
    if (!is_alive(op) || op.kind != OpKind::Redistribute) return;
    if (op.change.from != Placement::partial() || !has_one_reader(op.inputs.front())) return;
    Op* made_by = producer(op.inputs.front());
    if (made_by->kind == OpKind::Add) {
      Op* last = joined_addends(*made_by);
      if (last == nullptr) return;
      made_by = last;
    }
    if (!makes_addends(*made_by)) return;
    made_by->leave = EdgeChange{op.change, op.in_pieces};
    made_by->outputs = op.outputs;
    remove(op);
  }

  static bool makes_addends(const Op& op) {
    return is_one_of(op.kind, {OpKind::Linear, OpKind::Combine, OpKind::Lookup});
  }

  // The ops whose outputs `add` sums, in the order of the graph; none where another op reads one of
  // them or it cannot be added to.
  bool collect_addends(Op& add, std::vector<Op*>& addends, std::vector<Op*>& adds) {
    adds.push_back(&add);
    for (const ValueId input : add.inputs) {
      Op* op = producer(input);
      if (op == nullptr || op->leave || !has_one_reader(input)) return false;
      if (op->kind == OpKind::Add) {
        if (!collect_addends(*op, addends, adds)) return false;
      } else if (is_one_of(op->kind, {OpKind::Linear, OpKind::Combine})) {
        addends.push_back(op);
      } else {
        return false;
      }
    }
    return true;
  }

  // Makes each of the ops add to the output of the one before it. Returns the last.
  Op* joined_addends(Op& add) {
    std::vector<Op*> addends, adds;
    if (!collect_addends(add, addends, adds)) return nullptr;
    std::sort(addends.begin(), addends.end());
    for (size_t i = 1; i < addends.size(); ++i) {
      addends[i]->addend = addends[i - 1]->outputs.front();
    }
    for (const Op* joined : adds) remove(*joined);
    return addends.back();
  }
  Op* first_addend(Op* op) {
    while (op->addend >= 0) op = producer(op->addend);
    return op;
  }

  void join_dropout(Op& op) {
    if (!is_alive(op) || op.kind != OpKind::Dropout || !has_one_reader(op.inputs.front())) return;
    Op* made_by = producer(op.inputs.front());
    if (made_by == nullptr || !made_by->leave) return;
    made_by->dropout = op.name;
    made_by->outputs = op.outputs;
    remove(op);
  }

  void join_residual(Op& add) {
    if (!is_alive(add) || add.kind != OpKind::Add) return;
    for (const size_t sum : {size_t{1}, size_t{0}}) {
      Op* last = producer(add.inputs[sum]);
      const ValueId residual = add.inputs[1 - sum];
      if (last == nullptr || !last->leave || !has_one_reader(add.inputs[sum])) continue;
      if (last->kind == OpKind::Lookup) continue;
      Op* first = first_addend(last);
      const Op* before = producer(residual);
      if (before != nullptr && before >= first) continue;
      first->early_residual = residual;
      first->dropout = last->dropout;  // where something is dropped, the residual is not added yet
      last->late_residual = residual;
      last->outputs = add.outputs;
      remove(add);
      return;
    }
  }

  Graph finished() {
    std::vector<Op> ops;
    for (Op& op : graph_.ops) {
      if (!is_alive(op) || is_addend(op)) continue;
      add_with_addends(op, ops);
    }
    graph_.ops = std::move(ops);
    return std::move(graph_);
  }
  void add_with_addends(const Op& op, std::vector<Op>& ops) {
    if (op.addend >= 0) add_with_addends(*producer(op.addend), ops);
    ops.push_back(op);
  }
  bool is_addend(const Op& op) const {
    return std::any_of(graph_.ops.begin(), graph_.ops.end(), [&](const Op& other) {
      return is_alive(other) && other.addend >= 0 && other.addend == op.outputs.front();
    });
  }

  Graph graph_;
  std::vector<bool> is_removed_;
};

}  // namespace

Graph fuse(Graph placed) { return Fuser(std::move(placed)).run(); }

}  // namespace trireme
