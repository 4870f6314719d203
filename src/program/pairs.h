#pragma once

#include <vector>

#include "program/check.h"
#include "schema/program.h"

namespace trireme {

// How a rank with one compute stream runs the F&BW pairs of a schedule (DualPipe).
enum class Pairs : uint8_t {
  Apart,  // F, then BW
  Beside  // the same two actions, of which one computes while the transfers of the other travel
};

// Splits F&BW pairs into F, then BW. With Pairs::Beside both are marked (Action::beside).
Program unpair(const Program& program, Pairs pairs);

// Removes the marks of actions whose other half does not stand beside them any more, and of those
// that are cut into units. Call it after the passes that do this.
void part_broken_pairs(Program& program);

// Rule "pairs": a marked F has a marked BW of another chunk behind it, with which it shares no
// memory. Both are of whole chunks.
std::vector<Problem> check_pairs(const Program& program, int rank);

}  // namespace trireme
