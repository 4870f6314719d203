#include "program/lookahead.h"

#include <fmt/format.h>

#include <set>
#include <tuple>

#include "program/stage_graph.h"

namespace trireme {
namespace {

bool is_forward(ActionKind kind) {
  return kind == ActionKind::F || kind == ActionKind::SendActivation ||
         kind == ActionKind::RecvActivation || kind == ActionKind::Unshard ||
         kind == ActionKind::Reshard;
}

// Computes the leading actions of all ranks together.
class Leading {
 public:
  Leading(const Schedule& schedule, const std::vector<const Program*>& programs,
          const std::vector<int>& counts)
      : graph_(schedule), programs_(programs), counts_(counts) {
    for (int rank = 0; rank < int(programs.size()); ++rank) {
      for (int i = 0; i < counts[size_t(rank)]; ++i) note(rank, action(rank, i));
    }
  }

  // Returns the position of the first action that may not run ahead, because it is no forward pass
  // or its other end does not run ahead; else the number of leading actions.
  int first_odd(int rank) const {
    const int count = counts_[size_t(rank)];
    for (int i = 0; i < count; ++i) {
      if (!fits(rank, action(rank, i))) return i;
    }
    return count;
  }

 private:
  using End = std::tuple<int, int, int>;  // the receiver: rank, chunk, micro-batch

  const Action& action(int rank, int i) const { return (*programs_[size_t(rank)])[size_t(i)]; }

  End end_of(int rank, const Action& transfer) const {
    if (transfer.kind == ActionKind::RecvActivation) {
      return {rank, transfer.chunk, transfer.microbatch};
    }
    const StagePlace next = graph_.next(rank, transfer.chunk);
    return {next.rank, next.chunk, transfer.microbatch};
  }

  void note(int rank, const Action& action) {
    if (action.kind == ActionKind::SendActivation) sent_.insert(end_of(rank, action));
    if (action.kind == ActionKind::RecvActivation) received_.insert(end_of(rank, action));
  }

  bool fits(int rank, const Action& action) const {
    if (action.kind == ActionKind::SendActivation) return received_.contains(end_of(rank, action));
    if (action.kind == ActionKind::RecvActivation) return sent_.contains(end_of(rank, action));
    return is_forward(action.kind) && action.beside == Beside::None;
  }

  StageGraph graph_;
  const std::vector<const Program*>& programs_;
  const std::vector<int>& counts_;
  std::set<End> sent_, received_;
};

}  // namespace

std::vector<int> leading_forwards(const Schedule& schedule,
                                  const std::vector<const Program*>& programs) {
  std::vector<int> counts;
  for (const Program* program : programs) counts.push_back(int(program->size()));
  for (bool is_stable = false; !is_stable;) {
    const std::vector<int> before = counts;
    const Leading leading(schedule, programs, before);
    for (int rank = 0; rank < int(programs.size()); ++rank) {
      counts[size_t(rank)] = leading.first_odd(rank);
    }
    is_stable = counts == before;
  }
  return counts;
}

std::vector<Problem> check_ahead(const Schedule& schedule,
                                 const std::vector<const Program*>& programs,
                                 const std::vector<int>& num_ahead) {
  std::vector<Problem> problems;
  for (int rank = 0; rank < int(programs.size()); ++rank) {
    if (num_ahead[size_t(rank)] <= int(programs[size_t(rank)]->size())) continue;
    return {{"ahead", rank, -1,
             fmt::format("rank {} has fewer actions than the number that runs ahead", rank)}};
  }
  const Leading leading(schedule, programs, num_ahead);
  for (int rank = 0; rank < int(programs.size()); ++rank) {
    const int odd = leading.first_odd(rank);
    if (odd == num_ahead[size_t(rank)]) continue;
    const Action& action = (*programs[size_t(rank)])[size_t(odd)];
    problems.push_back({"ahead", rank, odd,
                        fmt::format("rank {} runs {} ahead of Validate, which cannot be dropped",
                                    rank, to_string(action, schedule.num_chunks))});
  }
  return problems;
}

}  // namespace trireme
