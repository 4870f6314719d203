#include "program/fold_lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trireme {
namespace {

class LaneFold {
 public:
  LaneFold(const FoldedProgram& spread, const Lanes& lanes) : spread_(spread), lanes_(lanes) {
    folded_.problems = spread.problems;
  }

  FoldedProgram run() && {
    for (size_t at = 0; at < spread_.program.size() && !has_failed_;) {
      const Action& action = spread_.program[at];
      if (is_in_lane(at)) {
        at = take_part(at);
        continue;
      }
      if (action.kind != ActionKind::SumGrad) keep(at, action);
      ++at;
    }
    return std::move(folded_);
  }

 private:
  bool is_in_lane(size_t at) const {
    const ActionKind kind = spread_.program[at].kind;
    return computes(kind) || is_transfer(kind);
  }
  int lane_at(size_t at) const { return lanes_.lane_of(spread_.program[at].microbatch); }

  // The action as one of a lane, without the slots of gradients, which belong to all lanes, and
  // without the mark of a pair, which the last lane may lack (part_broken_pairs).
  Action in_lane(size_t at) const {
    Action action = spread_.program[at];
    action.microbatch = lanes_.in_lane(action.microbatch);
    action.grad_slot = 0;
    action.accumulate = false;
    action.beside = Beside::None;
    return action;
  }

  void keep(size_t at, const Action& action) {
    folded_.program.push_back(action);
    folded_.positions.push_back(spread_.positions[at]);
  }

  void fail(size_t at) {
    const size_t last = spread_.program.size() - 1;
    folded_.problems.push_back(
        {"lanes", -1, spread_.positions[std::min(at, last)],
         fmt::format("{} is not where every one of {} lanes takes the same part in turn",
                     at > last ? "the end" : to_string(spread_.program[at], 2), lanes_.count)});
    has_failed_ = true;
  }

  // Returns the position behind the part that begins at `begin`. Sums of gradients may stand
  // between its actions.
  size_t take_part(size_t begin) {
    std::vector<Action> part;
    size_t at = begin;
    int transfers = 0;
    for (; at < spread_.program.size(); ++at) {
      if (spread_.program[at].kind == ActionKind::SumGrad) continue;
      if (!is_in_lane(at) || lane_at(at) != 0) break;
      // With one lane every action is a part.
      if (lanes_.count == 1 && !part.empty()) break;
      if (is_transfer(spread_.program[at].kind) && ++transfers > 1) break;
      part.push_back(in_lane(at));
      keep(at, part.back());
    }
    if (part.empty()) {
      fail(begin);
      return begin;
    }
    for (int lane = 1; lane < lanes_.count; ++lane) {
      for (size_t i = 0; i < part.size(); ++at) {
        const bool is_over = at >= spread_.program.size();
        if (!is_over && spread_.program[at].kind == ActionKind::SumGrad) continue;
        if (is_over || !is_in_lane(at) || lane_at(at) != lane || in_lane(at) != part[i]) {
          fail(at);
          return at;
        }
        ++i;
      }
    }
    return at;
  }

  const FoldedProgram& spread_;
  const Lanes& lanes_;
  FoldedProgram folded_;
  bool has_failed_ = false;
};

}  // namespace

FoldedProgram fold_lanes(FoldedProgram program, const Lanes& lanes) {
  return LaneFold(program, lanes).run();
}

}  // namespace trireme
