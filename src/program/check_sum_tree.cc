#include "program/check_sum_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <span>
#include <utility>

namespace trireme {
namespace {

// The sum of micro-batches [first, first + count) of the step; count 0: nothing.
struct Sum {
  int64_t first = 0;
  int64_t count = 0;

  friend bool operator==(const Sum&, const Sum&) = default;
};

std::string to_text(const Sum& sum) {
  return fmt::format("[{}, {})", sum.first, sum.first + sum.count);
}

// One sum for each data-parallel rank of a stage. They all run the same program.
using Sums = std::vector<Sum>;  // [dp]

class SumTreeCheck {
 public:
  SumTreeCheck(const Schedule& schedule, const std::vector<const RankPlan*>& pipeline,
               const std::vector<std::vector<MicrobatchMap>>& microbatches)
      : schedule_(schedule),
        pipeline_(pipeline),
        microbatches_(microbatches),
        whole_{0, pipeline.front()->microbatches.num_global},
        stages_(pipeline.size()) {}

  std::vector<Problem> run() && {
    bool moves = true;
    while (moves && problems_.empty()) {
      moves = false;
      for (int pp = 0; pp < int(pipeline_.size()); ++pp) moves = follow(pp) || moves;
    }
    return std::move(problems_);
  }

 private:
  // State of the ranks at one place of the pipeline.
  struct Stage {
    size_t position = 0;
    std::map<std::pair<int, int>, Sums> slots;  // key: (chunk, slot)
  };

  const RankPlan& rank_at(int pp) const { return *pipeline_[size_t(pp)]; }
  size_t num_dp(int pp) const { return microbatches_[size_t(pp)].size(); }

  void report(int pp, std::string message) {
    const RankPlan& rank = rank_at(pp);
    const int position = int(stages_[size_t(pp)].position);
    problems_.push_back(
        {"sum", rank.position, position,
         fmt::format("rank {} has {}: {}", rank.position,
                     to_string(rank.program[size_t(position)], schedule_.num_chunks), message)});
  }

  // Follows the program to its end, or to a join whose other direction is not ready yet.
  bool follow(int pp) {
    Stage& stage = stages_[size_t(pp)];
    const Program& program = rank_at(pp).program;
    const size_t begin = stage.position;
    for (; stage.position < program.size() && problems_.empty(); ++stage.position) {
      const Action& action = program[stage.position];
      if (action.first_unit != 0) continue;  // all units are summed in the same way
      if (action.kind != ActionKind::JoinDirections) {
        take(pp, action);
      } else if (!join_directions(pp, action)) {
        break;
      }
    }
    return stage.position > begin;
  }

  void take(int pp, const Action& action) {
    switch (action.kind) {
      case ActionKind::W:
      case ActionKind::BW:
        if (action.accumulate) return report(pp, "adds in the order of the program");
        if (!rank_at(pp).zero.shards_grads()) slot(pp, action) = leaves(pp, action);
        return;
      case ActionKind::SumGrad:
        return join_slots(pp, action);
      case ActionKind::ReduceGrad:
        return reduce(pp, action);
      case ActionKind::Step:
        return expect_whole(pp);
      default:
        return;
    }
  }

  Sums& slot(int pp, const Action& action) {
    return stages_[size_t(pp)].slots[{action.chunk, action.grad_slot}];
  }

  Sums leaves(int pp, const Action& action) const {
    Sums result;
    for (const MicrobatchMap& map : microbatches_[size_t(pp)]) {
      result.push_back({map.global_of.at(size_t(action.microbatch)), 1});
    }
    return result;
  }

  // True if they are the left and the right half of a node, below the number of micro-batches.
  bool are_siblings(const Sum& left, const Sum& right) const {
    const int64_t size = right.first - left.first;
    if (size <= 0 || left.count != size || !std::has_single_bit(uint64_t(size))) return false;
    return left.first % (2 * size) == 0 &&
           right.count == std::min(size, whole_.count - right.first);
  }

  // Joins two addends. Their order does not matter, because addition of two numbers commutes.
  Sum joined(int pp, Sum left, Sum right) {
    // Already reported.
    if (left.count == 0 || right.count == 0) return left.count == 0 ? right : left;
    if (right.first < left.first) std::swap(left, right);
    if (are_siblings(left, right)) return {left.first, left.count + right.count};
    if (problems_.empty()) {
      report(pp, fmt::format("joins micro-batches {} and {}, which are not the two halves of a "
                             "node of the tree over {}",
                             to_text(left), to_text(right), to_text(whole_)));
    }
    return {};
  }

  void join_slots(int pp, const Action& action) {
    Sums& left = slot(pp, action);
    Sums& right = stages_[size_t(pp)].slots[{action.chunk, action.grad_slot_b}];
    left.resize(num_dp(pp));
    right.resize(num_dp(pp));
    for (size_t dp = 0; dp < left.size(); ++dp) left[dp] = joined(pp, left[dp], right[dp]);
    right.clear();
  }

  // Canonical collectives add along a binary tree over the index in the group.
  Sum over_ranks(int pp, std::span<const Sum> sums) {
    if (sums.size() <= 1) return sums.empty() ? Sum{} : sums.front();
    const size_t half = std::bit_ceil(sums.size()) / 2;
    const Sum left = over_ranks(pp, sums.first(half));
    return joined(pp, left, over_ranks(pp, sums.subspan(half)));
  }

  // Neighbouring ranks share the shards of a copy; the sums of the shards are then added over the
  // copies.
  void reduce(int pp, const Action& action) {
    const ZeroShape& zero = rank_at(pp).zero;
    Sums& target = slot(pp, action);
    const Sums own = zero.shards_grads() ? leaves(pp, action) : target;
    if (own.size() != num_dp(pp)) return report(pp, "reduces a gradient that was not computed");
    if (zero.shards_grads() && action.accumulate) {
      return report(pp, "adds in the order of the program");
    }
    const size_t degree = zero.level == 0 ? 1 : size_t(zero.degree);
    Sums copies;
    for (size_t first = 0; first < own.size(); first += degree) {
      copies.push_back(over_ranks(pp, std::span(own).subspan(first, degree)));
    }
    target.assign(own.size(), over_ranks(pp, copies));
  }

  // Joins both holders of a stage at once. Returns false if the other one is not ready.
  bool join_directions(int pp, const Action& action) {
    Stage& here = stages_[size_t(pp)];
    Stage& there = stages_[size_t(action.peer)];
    const Program& program = rank_at(action.peer).program;
    if (there.position >= program.size()) return false;
    const Action& other = program[there.position];
    const bool meets =
        other.kind == ActionKind::JoinDirections && other.peer == pp &&
        stage_of(schedule_, pp, action.chunk) == stage_of(schedule_, action.peer, other.chunk);
    if (!meets) return false;
    Sums& mine = here.slots[{action.chunk, 0}];
    Sums& theirs = there.slots[{other.chunk, 0}];
    mine.resize(num_dp(pp));
    theirs.resize(num_dp(pp));
    for (size_t dp = 0; dp < mine.size(); ++dp) {
      mine[dp] = theirs[dp] = joined(pp, mine[dp], theirs[dp]);
    }
    ++there.position;
    return true;
  }

  void expect_whole(int pp) {
    for (int chunk = 0; chunk < schedule_.num_chunks; ++chunk) {
      Sums& sums = stages_[size_t(pp)].slots[{chunk, 0}];
      sums.resize(num_dp(pp));
      for (const Sum& sum : sums) {
        if (sum == whole_) continue;
        return report(pp, fmt::format("reads the sum over micro-batches {} of {} in chunk {}",
                                      to_text(sum), to_text(whole_), chunk));
      }
    }
  }

  const Schedule& schedule_;
  const std::vector<const RankPlan*>& pipeline_;
  const std::vector<std::vector<MicrobatchMap>>& microbatches_;
  Sum whole_;
  std::vector<Stage> stages_;  // [pp]
  std::vector<Problem> problems_;
};

}  // namespace

std::vector<Problem> check_sum_tree(const Schedule& schedule,
                                    const std::vector<const RankPlan*>& pipeline,
                                    const std::vector<std::vector<MicrobatchMap>>& microbatches) {
  return SumTreeCheck(schedule, pipeline, microbatches).run();
}

}  // namespace trireme
