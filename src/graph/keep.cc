#include "graph/keep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"
#include "graph/backward_reads.h"

namespace trireme {
namespace {

// A set of choices is a number, and sets are enumerated.
constexpr size_t kMostChoices = 20;

// The pieces of memory of a fused graph. A piece is named by the op that writes it first; what is
// gathered or added up has none.
class Pieces {
 public:
  static constexpr int kNone = -1;

  explicit Pieces(const Graph& graph)
      : graph_(graph),
        piece_(graph.values.size(), kNone),
        made_by_(graph.values.size(), nullptr),
        is_read_(graph.ops.size(), false) {
    for (size_t i = 0; i < graph.ops.size(); ++i) place_outputs(int(i));
    for (const Op& op : graph.ops) {
      for (const ValueId id : read_by_backward(graph, op)) mark_read(id);
    }
  }

  int of(ValueId id) const { return piece_[size_t(id)]; }
  // True if B or W reads the piece.
  bool is_read(int piece) const { return is_read_[size_t(piece)]; }
  // The unit after this one holds the output.
  bool is_output(int piece) const {
    return graph_.ops[size_t(piece)].outputs.front() == graph_.output;
  }
  // True if nothing but a policy decides whether the piece is stored.
  bool is_choice(int piece) const { return is_read(piece) && !is_output(piece); }

 private:
  void place_outputs(int index) {
    const Op& op = graph_.ops[size_t(index)];
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      const ValueId id = op.outputs[i];
      made_by_[size_t(id)] = &op;
      const Value& value = graph_.values[size_t(id)];
      if (!is_matrix(value) || gathers(op) || is_addend(value)) continue;
      piece_[size_t(id)] = op.kind == OpKind::Rope ? of(op.inputs[i]) : index;  // in place
    }
  }
  // A gathered value is not stored: W gathers it again.
  void mark_read(ValueId id) {
    const Op* made_by = made_by_[size_t(id)];
    if (made_by != nullptr && gathers(*made_by)) return mark_read(made_by->inputs.front());
    if (of(id) != kNone) is_read_[size_t(of(id))] = true;
  }

  const Graph& graph_;
  std::vector<int> piece_;          // [value]
  std::vector<const Op*> made_by_;  // [value]
  std::vector<bool> is_read_;       // [op that writes a piece first]
};

// The policies of recomputation: everything that B and W read is stored; all but what norms,
// activation functions and copies make, which costs little to compute again; nothing but the unit's
// input; or what is named.
bool is_chosen(const KeepPolicy& policy, size_t choice, const Op& op) {
  switch (policy.recompute) {
    case Recompute::None:
      return false;
    case Recompute::Selective:
      return op.kind == OpKind::Norm || op.kind == OpKind::Activation || op.kind == OpKind::Concat;
    case Recompute::Full:
      return true;
    case Recompute::Fit:
      return ((policy.again >> choice) & 1) != 0;
  }
  return false;
}

class Keeper {
 public:
  Keeper(const Graph& graph, const KeepPolicy& policy)
      : graph_(graph), pieces_(graph), policy_(policy) {}

  Keep run() {
    const size_t num_ops = graph_.ops.size();
    kept_.runs_again.assign(num_ops, false);
    decide_choices();
    for (size_t i = num_ops; i-- > 0;) run_again_if_needed(i);
    for (size_t i = 0; i < num_ops; ++i) {
      // `selective` stores the statistics of the norms that it runs again.
      kept_.keeps_statistics.push_back(policy_.recompute == Recompute::Selective ||
                                       !kept_.runs_again[i]);
    }
    return std::move(kept_);
  }

 private:
  Fate& fate(ValueId id) { return kept_.fates[size_t(id)]; }

  void decide_choices() {
    std::vector<Fate> of_piece;  // [op]
    size_t choice = 0;
    for (int op = 0; op < int(graph_.ops.size()); ++op) {
      Fate fate = pieces_.is_output(op) ? Fate::Stored : Fate::Dropped;
      if (pieces_.is_choice(op)) {
        const bool again = is_chosen(policy_, choice++, graph_.ops[size_t(op)]);
        fate = again ? Fate::Again : Fate::Stored;
      }
      of_piece.push_back(fate);
    }
    for (ValueId id = 0; id < ValueId(graph_.values.size()); ++id) {
      const bool is_always_stored = id == graph_.input || !is_matrix(graph_.values[size_t(id)]);
      const int piece = pieces_.of(id);
      kept_.fates.push_back(is_always_stored         ? Fate::Stored
                            : piece == Pieces::kNone ? Fate::Dropped
                                                     : of_piece[size_t(piece)]);
    }
  }

  // Ops are visited last to first, so what an op reads is decided before the op that writes it.
  void run_again_if_needed(size_t index) {
    const Op& op = graph_.ops[index];
    const bool again = std::any_of(op.outputs.begin(), op.outputs.end(),
                                   [&](ValueId id) { return fate(id) == Fate::Again; });
    kept_.runs_again[index] = again;
    if (!again) return;
    for (const ValueId id : op.inputs) need(id);
    need(op.addend);
    need(op.early_residual);
    need(op.late_residual);
  }
  void need(ValueId id) {
    if (id < 0 || fate(id) != Fate::Dropped) return;
    fate(id) = Fate::Again;
    if (pieces_.of(id) == Pieces::kNone) return;
    for (ValueId other = 0; other < ValueId(graph_.values.size()); ++other) {
      if (pieces_.of(other) == pieces_.of(id)) fate(other) = Fate::Again;
    }
  }

  const Graph& graph_;
  Pieces pieces_;
  KeepPolicy policy_;
  Keep kept_;
};

}  // namespace

Keep keep(const Graph& fused, const KeepPolicy& policy) { return Keeper(fused, policy).run(); }

std::vector<KeepChoice> keep_choices(const Graph& fused) {
  const Pieces pieces(fused);
  std::vector<KeepChoice> choices;
  for (int op = 0; op < int(fused.ops.size()); ++op) {
    if (!pieces.is_choice(op)) continue;
    KeepChoice& choice = choices.emplace_back(KeepChoice{op, {}});
    for (const Op& writer : fused.ops) {
      for (const ValueId id : writer.outputs) {
        if (pieces.of(id) == op) choice.values.push_back(id);
      }
    }
  }
  TRIREME_CHECK(choices.size() <= kMostChoices, "too many values to choose from in " + fused.unit);
  return choices;
}

uint64_t all_again(const Graph& fused) { return (uint64_t{1} << keep_choices(fused).size()) - 1; }

std::vector<bool> runs_again_before_fuse(const Graph& placed, const Graph& fused,
                                         const Keep& kept) {
  std::vector<int> maker(placed.values.size(), -1);  // [value]: the fused op that writes it
  for (size_t i = 0; i < fused.ops.size(); ++i) {
    for (const ValueId id : fused.ops[i].outputs) maker[size_t(id)] = int(i);
  }
  // A value that `fuse` has removed is made by the call that makes what is computed from it.
  std::vector<bool> again(placed.ops.size(), false);
  for (size_t i = placed.ops.size(); i-- > 0;) {
    for (const ValueId id : placed.ops[i].outputs) {
      if (maker[size_t(id)] >= 0) {
        again[i] = again[i] || kept.runs_again[size_t(maker[size_t(id)])];
        continue;
      }
      for (size_t reader = i + 1; reader < placed.ops.size(); ++reader) {
        if (reads(placed.ops[reader], id)) again[i] = again[i] || again[reader];
      }
    }
  }
  return again;
}

std::string to_string(const Graph& fused, const Keep& kept) {
  std::vector<std::string_view> stored, again, ops;
  for (ValueId id = 0; id < ValueId(fused.values.size()); ++id) {
    const Value& value = fused.values[size_t(id)];
    const bool is_alive = id == fused.input || producer_of(fused, id) != nullptr;
    if (!is_alive || !is_matrix(value)) continue;
    if (kept.fates[size_t(id)] == Fate::Stored) stored.push_back(value.name);
    if (kept.fates[size_t(id)] == Fate::Again) again.push_back(value.name);
  }
  for (size_t i = 0; i < fused.ops.size(); ++i) {
    if (kept.runs_again[i]) ops.push_back(fused.ops[i].name);
  }
  std::string text = fmt::format("    stored          {}\n", fmt::join(stored, ", "));
  if (again.empty()) return text;
  return text + fmt::format("    computed again  {}\n    by              {}\n",
                            fmt::join(again, ", "), fmt::join(ops, ", "));
}

}  // namespace trireme
