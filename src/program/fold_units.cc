#include "program/fold_units.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace trireme {
namespace {

bool is_compute(ActionKind kind) {
  return kind == ActionKind::F || kind == ActionKind::B || kind == ActionKind::W ||
         kind == ActionKind::BW;
}

class Fold {
 public:
  Fold(const Program& program, const DataParallelShape& shape) : program_(program), shape_(shape) {
    for (const int units : shape.num_units) makings_.emplace_back(size_t(units));
  }

  FoldedProgram run() && {
    for (position_ = 0; position_ < int(program_.size()); ++position_) take(program_[position_]);
    position_ = int(program_.size());
    for (const auto& [key, part] : open_) report("never finishes " + part.text);
    for (const std::vector<Making>& of_units : makings_) {
      for (size_t unit = 1; unit < of_units.size(); ++unit) {
        if (of_units[unit] == of_units[0]) continue;
        report(
            fmt::format("computes the gradient of unit {} differently from that of unit 0", unit));
      }
    }
    return std::move(result_);
  }

 private:
  using Key = std::tuple<ActionKind, int, int, int>;  // chunk, micro-batch, or the slots of a Sum
  struct Open {
    int next_unit = 0;
    std::string text;
    Action whole;
  };
  // The actions that compute a unit's gradient. All units of a chunk must have the same ones in the
  // same order.
  using Making = std::vector<Key>;

  void report(std::string message) {
    result_.problems.push_back({"units", -1, position_, std::move(message)});
  }
  std::string text(const Action& action) const { return to_string(action, 2); }

  void take(const Action& action) {
    const bool has_chunk = action.chunk >= 0 && action.chunk < int(shape_.num_units.size());
    if (is_of_piece(action.kind)) return;
    const bool is_of_rank = action.kind == ActionKind::Step || action.kind == ActionKind::Validate;
    if (!is_of_rank && !has_chunk) {
      return report(text(action) + " names a chunk that the rank does not have");
    }
    switch (action.kind) {
      case ActionKind::F:
      case ActionKind::B:
      case ActionKind::W:
      case ActionKind::BW:
      case ActionKind::SumGrad:
        return action.num_units == 0 ? take_whole(action) : take_part(action);
      case ActionKind::ReduceGrad:
        if (action.microbatch >= 0) take_leaf(action);
        return;
      case ActionKind::JoinDirections:
      case ActionKind::Unshard:
      case ActionKind::Reshard:
      case ActionKind::FetchUnits:
      case ActionKind::OffloadUnits:
        return;
      default:
        return take_whole(action);
    }
  }

  void take_whole(const Action& action) {
    if (!open_.empty()) {
      report(
          fmt::format("has {} between the parts of {}", text(action), open_.begin()->second.text));
    }
    note_making(action);
    emit(action);
  }

  static Key key_of(const Action& action) {
    const bool is_sum = action.kind == ActionKind::SumGrad;
    return {action.kind, action.chunk, is_sum ? action.grad_slot : action.microbatch,
            is_sum ? action.grad_slot_b : 0};
  }

  void note_making(const Action& action) {
    const bool makes = action.kind == ActionKind::W || action.kind == ActionKind::BW ||
                       action.kind == ActionKind::SumGrad;
    if (!makes) return;
    std::vector<Making>& of_units = makings_[size_t(action.chunk)];
    const int end =
        action.num_units == 0 ? int(of_units.size()) : action.first_unit + action.num_units;
    for (int unit = std::max<int>(action.first_unit, 0); unit < std::min(end, int(of_units.size()));
         ++unit) {
      of_units[size_t(unit)].push_back(key_of(action));
    }
  }

  // In a forward pass the parts come in the order of the units, in a backward pass in reverse
  // order.
  void take_part(const Action& action) {
    const bool is_sum = action.kind == ActionKind::SumGrad;
    const Key key = key_of(action);
    Action whole = action;
    whole.first_unit = whole.num_units = 0;
    const int units = shape_.num_units[size_t(action.chunk)];
    const bool rises = action.kind == ActionKind::F;
    const bool is_first = !open_.contains(key);
    if (is_first && !is_sum) expect_nothing_open(action);
    Open& open = open_[key];
    if (is_first) open = {rises ? 0 : units, text(action), whole};
    if (open.whole != whole) {
      report(fmt::format("has {}, which is summed differently from {}", text(action), open.text));
    }
    note_making(action);
    const int begin = action.first_unit;
    const int end = begin + action.num_units;
    if ((rises ? begin : end) != open.next_unit || begin < 0 || end > units) {
      report(fmt::format("has {} where unit {} is due", text(action),
                         rises ? open.next_unit : open.next_unit - 1));
    }
    open.next_unit = rises ? end : begin;
    if (open.next_unit != (rises ? units : 0)) return;
    open_.erase(key);
    emit(whole);
  }

  // While a leaf has open parts, only its joins may follow.
  void expect_nothing_open(const Action& action) {
    for (const auto& [key, open] : open_) {
      if (is_compute(std::get<0>(key))) {
        report(fmt::format("begins {} before the last part of {}", text(action), open.text));
      }
    }
  }

  void emit(const Action& action) {
    if (action.kind == ActionKind::W || action.kind == ActionKind::BW) {
      leaf_at_[{action.chunk, action.microbatch}] = result_.program.size();
    }
    result_.program.push_back(action);
    result_.positions.push_back(position_);
  }

  void take_leaf(const Action& reduce) {
    const auto found = leaf_at_.find({reduce.chunk, reduce.microbatch});
    if (found == leaf_at_.end()) return;  // not the last part
    Action& leaf = result_.program[found->second];
    leaf.grad_slot = reduce.grad_slot;
    leaf.accumulate = reduce.accumulate;
  }

  const Program& program_;
  const DataParallelShape& shape_;
  int position_ = 0;
  std::map<Key, Open> open_;
  std::vector<std::vector<Making>> makings_;       // [chunk][unit]
  std::map<std::pair<int, int>, size_t> leaf_at_;  // key: (chunk, micro-batch)
  FoldedProgram result_;
};

}  // namespace

FoldedProgram fold_units(const Program& program, const DataParallelShape& shape) {
  return Fold(program, shape).run();
}

}  // namespace trireme
