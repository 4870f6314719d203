#include "program/pairs.h"

#include <fmt/format.h>

namespace trireme {
namespace {

bool is_pair(const Action& first, const Action& second) {
  return first.kind == ActionKind::F && first.beside == Beside::Next &&
         second.kind == ActionKind::BW && second.beside == Beside::Previous &&
         first.chunk != second.chunk && first.num_units == 0 && second.num_units == 0;
}

// True if the other half of the pair stands where the mark of the action says.
bool is_whole(const Program& program, size_t position) {
  switch (program[position].beside) {
    case Beside::Next:
      return position + 1 < program.size() && is_pair(program[position], program[position + 1]);
    case Beside::Previous:
      return position > 0 && is_pair(program[position - 1], program[position]);
    case Beside::None:
      return true;
  }
  return true;
}

}  // namespace

Program unpair(const Program& program, Pairs pairs) {
  Program result;
  for (const Action& action : program) {
    if (action.kind != ActionKind::FB) {
      result.push_back(action);
      continue;
    }
    Action backward = action;
    backward.kind = ActionKind::BW;
    backward.chunk = action.chunk_b;
    backward.microbatch = action.microbatch_b;
    backward.chunk_b = -1;
    backward.microbatch_b = -1;
    const bool is_beside = pairs == Pairs::Beside;
    if (is_beside) backward.beside = Beside::Previous;
    result.push_back({.kind = ActionKind::F,
                      .chunk = action.chunk,
                      .microbatch = action.microbatch,
                      .beside = is_beside ? Beside::Next : Beside::None});
    result.push_back(backward);
  }
  return result;
}

void part_broken_pairs(Program& program) {
  std::vector<size_t> broken;
  for (size_t i = 0; i < program.size(); ++i) {
    if (!is_whole(program, i)) broken.push_back(i);
  }
  for (const size_t i : broken) program[i].beside = Beside::None;
}

std::vector<Problem> check_pairs(const Program& program, int rank) {
  std::vector<Problem> problems;
  for (size_t i = 0; i < program.size(); ++i) {
    if (is_whole(program, i)) continue;
    problems.push_back({"pairs", rank, int(i),
                        fmt::format("rank {} has an action that runs beside another one, but they "
                                    "are no F and BW of two chunks, one behind the other",
                                    rank)});
  }
  return problems;
}

}  // namespace trireme
