#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "program/check.h"
#include "program/data_parallel.h"

namespace trireme {

inline bool makes_weight_grad(ActionKind kind) {
  return kind == ActionKind::W || kind == ActionKind::BW;
}

// Calls visit(unit) for every unit of the action that the rank has.
template <typename Visit>
void for_each_unit(const Action& action, const DataParallelShape& shape, Visit&& visit) {
  if (action.chunk < 0 || action.chunk >= int(shape.num_units.size())) return;
  const int units = shape.num_units[size_t(action.chunk)];
  const int begin = std::max<int>(action.first_unit, 0);
  const int end = action.num_units == 0 ? units : action.first_unit + action.num_units;
  for (int unit = begin; unit < std::min(end, units); ++unit) visit(unit);
}

// Walks once over the program of one rank and collects its problems.
class ProgramCheck {
 public:
  ProgramCheck(const Program& program, const DataParallelShape& shape)
      : program_(program), shape_(shape) {}

 protected:
  void report(std::string rule, std::string message) {
    problems_.push_back({std::move(rule), -1, position_, std::move(message)});
  }
  std::string text(const Action& action) const {
    return to_string(action, int(shape_.num_units.size()));
  }
  std::string unit_text(int chunk, int unit) const {
    if (!shape_.unit_names.empty()) return shape_.unit_names[size_t(chunk)][size_t(unit)];
    return shape_.num_units.size() > 1 ? fmt::format("unit {} of chunk {}", unit, chunk)
                                       : fmt::format("unit {}", unit);
  }

  // Units of one group have separate memory; units of other groups may use the same slot.
  bool shares_memory(int chunk, int unit, int other_chunk, int other_unit) const {
    if (chunk == other_chunk && unit == other_unit) return true;
    if (chunk == other_chunk &&
        shape_.group_of(chunk, unit) == shape_.group_of(chunk, other_unit)) {
      return false;
    }
    return shape_.slot_of(chunk, unit) == shape_.slot_of(other_chunk, other_unit);
  }

  const Program& program_;
  const DataParallelShape& shape_;
  int position_ = -1;
  std::vector<Problem> problems_;
};

}  // namespace trireme
