#include "program/check_accumulate.h"

#include <fmt/format.h>

#include <bit>
#include <map>
#include <set>
#include <utility>

#include "program/stage_graph.h"

namespace trireme {
namespace {

class SlotCheck {
 public:
  SlotCheck(const Schedule& schedule, const MicrobatchMap& map, int rank)
      : schedule_(schedule), map_(map), rank_(rank) {}

  std::vector<Problem> run() {
    const Program& program = schedule_.programs[rank_];
    for (position_ = 0; position_ < static_cast<int>(program.size()); ++position_) {
      follow(program[position_]);
    }
    position_ = -1;
    if (has_joins_ && has_additions_) {
      report(fmt::format("rank {} both adds in program order and joins subtrees", rank_));
    }
    for (int chunk = 0; chunk < schedule_.num_chunks; ++chunk) check_end(chunk);
    return std::move(problems_);
  }

 private:
  using Slot = std::pair<int, int>;  // (chunk, slot)
  using Held = std::set<int64_t>;    // global indices of micro-batches

  void report(std::string message) {
    problems_.push_back({"accumulate", rank_, position_, std::move(message)});
  }

  void follow(const Action& action) {
    switch (action.kind) {
      case ActionKind::W:
      case ActionKind::BW:
        write(action, action.chunk, action.microbatch);
        break;
      case ActionKind::FB:
        write(action, action.chunk_b, action.microbatch_b);
        break;
      case ActionKind::SumGrad:
        join(action);
        break;
      default:
        break;
    }
  }

  void write(const Action& action, int chunk, int microbatch) {
    Held& held = slots_[{chunk, action.grad_slot}];
    has_additions_ = has_additions_ || action.accumulate;
    if (!action.accumulate && !held.empty()) {
      report(fmt::format("rank {} overwrites slot {} of chunk {}, which holds {} micro-batches",
                         rank_, action.grad_slot, chunk, held.size()));
      held.clear();
    }
    if (action.accumulate && held.empty()) {
      report(fmt::format("rank {} adds to slot {} of chunk {} before it was written", rank_,
                         action.grad_slot, chunk));
    }
    held.insert(map_.global_of[microbatch]);
  }

  // True if left = [a, a + s) and right = [a + s, a + 2s) below num_global, with a a multiple of
  // 2s.
  bool are_siblings(const Held& left, const Held& right) const {
    if (left.empty() || right.empty() || *right.begin() <= *left.begin()) return false;
    const int64_t first = *left.begin();
    const int64_t size = *right.begin() - first;
    const int64_t right_size = std::min(size, map_.num_global - (first + size));
    return std::has_single_bit(static_cast<uint64_t>(size)) && first % (2 * size) == 0 &&
           *left.rbegin() < *right.begin() && static_cast<int64_t>(left.size()) == size &&
           static_cast<int64_t>(right.size()) == right_size;
  }

  void join(const Action& action) {
    has_joins_ = true;
    Held& left = slots_[{action.chunk, action.grad_slot}];
    Held& right = slots_[{action.chunk, action.grad_slot_b}];
    if (!are_siblings(left, right)) {
      report(fmt::format(
          "rank {} joins slots {} and {} of chunk {} ({} and {} micro-batches), which "
          "are not left and right of one node",
          rank_, action.grad_slot, action.grad_slot_b, action.chunk, left.size(), right.size()));
      return;
    }
    left.insert(right.begin(), right.end());
    right.clear();
  }

  void check_end(int chunk) {
    Held sum;
    std::map<int64_t, const Held*> by_first;
    for (const auto& [slot, held] : slots_) {
      if (slot.first != chunk || held.empty()) continue;
      sum.insert(held.begin(), held.end());
      by_first[*held.begin()] = &held;
    }
    const MicrobatchRange range = microbatches_of(schedule_, chunk);
    if (static_cast<int>(sum.size()) != range.count) {
      report(fmt::format("rank {} ends with the gradients of {} of {} micro-batches of chunk {}",
                         rank_, sum.size(), range.count, chunk));
    }
    if (range.count > 0 && slots_[{chunk, 0}].empty()) {
      report(fmt::format("rank {} ends with nothing in slot 0 of chunk {}", rank_, chunk));
    }
    const Held* left = nullptr;
    for (const auto& [first, held] : by_first) {
      if (left != nullptr && are_siblings(*left, *held)) {
        report(
            fmt::format("rank {} leaves the sums from micro-batches {} and {} of chunk {} unjoined",
                        rank_, *left->begin(), first, chunk));
      }
      left = held;
    }
  }

  const Schedule& schedule_;
  const MicrobatchMap& map_;
  int rank_;
  int position_ = -1;
  bool has_joins_ = false;
  bool has_additions_ = false;
  std::map<Slot, Held> slots_;
  std::vector<Problem> problems_;
};

}  // namespace

std::vector<Problem> check_accumulate(const Schedule& schedule, const MicrobatchMap& map) {
  std::vector<Problem> problems;
  for (int rank = 0; rank < schedule.num_ranks; ++rank) {
    const std::vector<Problem> more = SlotCheck(schedule, map, rank).run();
    problems.insert(problems.end(), more.begin(), more.end());
  }
  return problems;
}

}  // namespace trireme
