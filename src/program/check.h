#pragma once

#include <string>
#include <vector>

#include "schema/program.h"

namespace trireme {

struct MicrobatchMap;

// A violated rule, its place and a message (docs/schedules.md):
// R1 every (stage, micro-batch) has one F and either one BW or one B and one W, on its owner
// R2 F after F of the previous stage    R3 B after its F and after B of the next stage
// R4 W after its B                      R5 list order and data have no cycle
// R6 an overlapped pair is independent  R7 ReduceGrad and Step after the last W they cover
// R8 a tied parameter is joined after the last W of both its users
// transfer    every sent message is received once, before its use, and blocking never hangs
// accumulate  no gradient slot is read unwritten, overwritten unread, or left out of the sum
struct Problem {
  std::string rule;
  int rank = -1;
  int position = -1;  // in the rank's program; -1: the whole rank
  std::string message;
};

// Returns all problems, or nothing if the schedule can be executed. Transfers and gradient slots
// are checked once a pass has inserted them: if one rank has any, every rank must have all.
std::vector<Problem> check(const Schedule& schedule);

// Checks one of several data-parallel pipelines. `map` says which micro-batches are its own.
std::vector<Problem> check(const Schedule& schedule, const MicrobatchMap& map);

// Returns the message and the part of the grid (ranks x list positions) around the marked position.
std::string explain(const Schedule& schedule, const Problem& problem);

}  // namespace trireme
