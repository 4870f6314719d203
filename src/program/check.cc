#include "program/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "program/check_accumulate.h"
#include "program/check_order.h"
#include "program/check_transfers.h"

namespace trireme {
namespace {

bool is_accumulated(const Schedule& schedule) {
  for (const Program& program : schedule.programs) {
    for (const Action& action : program) {
      const bool sums =
          action.kind == ActionKind::SumGrad || action.kind == ActionKind::JoinDirections;
      if (sums || action.accumulate) return true;
    }
  }
  return false;
}

bool has_transfers(const Schedule& schedule) {
  for (const Program& program : schedule.programs) {
    for (const Action& action : program) {
      if (is_transfer(action.kind)) return true;
    }
  }
  return false;
}

}  // namespace

std::vector<Problem> check(const Schedule& schedule) {
  return check(schedule, MicrobatchMap::contiguous(schedule.num_microbatches));
}

std::vector<Problem> check(const Schedule& schedule, const MicrobatchMap& map) {
  std::vector<Problem> problems = check_shape(schedule);
  if (!problems.empty()) return problems;  // the other checks rely on valid indices
  const auto append = [&](std::vector<Problem> more) {
    problems.insert(problems.end(), more.begin(), more.end());
  };
  append(check_order(schedule));
  if (is_accumulated(schedule)) append(check_accumulate(schedule, map));
  // A replay would only report the same problems again, as a hang.
  if (!problems.empty()) return problems;
  if (!has_transfers(schedule)) return check_cycles(schedule);
  append(check_transfers(schedule));
  return problems;
}

std::string explain(const Schedule& schedule, const Problem& problem) {
  std::string text = fmt::format("{}: {}\n", problem.rule, problem.message);
  if (problem.rank < 0 || problem.rank >= static_cast<int>(schedule.programs.size())) return text;
  const int centre = std::max(problem.position, 0);
  const int first_column = std::max(0, centre - 5);
  const int last_column = centre + 6;
  const int num_programs = static_cast<int>(schedule.programs.size());
  const int first_rank = std::max(0, problem.rank - 4);
  const int last_rank = std::min(num_programs, problem.rank + 5);
  const auto cell = [&](int rank, int column) -> std::string {
    const Program& program = schedule.programs[rank];
    const bool is_here = rank == problem.rank && column == problem.position;
    if (column >= static_cast<int>(program.size())) return is_here ? "[end]" : "";
    const std::string action = to_string(program[column], schedule.num_chunks);
    return is_here ? "[" + action + "]" : " " + action;
  };
  for (int rank = first_rank; rank < last_rank; ++rank) {
    text += fmt::format("{} rank {:<3}{}", rank == problem.rank ? '>' : ' ', rank,
                        first_column > 0 ? " ..." : "");
    for (int column = first_column; column < last_column; ++column) {
      text += fmt::format(" {:<8}", cell(rank, column));
    }
    while (text.back() == ' ') text.pop_back();
    text += '\n';
  }
  return text;
}

}  // namespace trireme
