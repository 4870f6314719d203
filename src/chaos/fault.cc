#include "chaos/fault.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/nearest_name.h"
#include "base/philox.h"

namespace trireme {

Result<std::vector<FaultKind>> fault_kinds_in(const std::string& list) {
  std::vector<FaultKind> kinds;
  size_t begin = 0;
  while (begin <= list.size()) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string name = list.substr(begin, end - begin);
    begin = end + 1;
    const auto* const found = std::find(std::begin(kFaultNames), std::end(kFaultNames), name);
    if (found == std::end(kFaultNames)) {
      return usage(fmt::format("--faults {}: \"{}\" is no kind of fault; there are {}", list, name,
                               fmt::join(kFaultNames, ", ")));
    }
    const auto kind = static_cast<FaultKind>(found - std::begin(kFaultNames));
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
  }
  return kinds;
}

PlannedFault planned_fault(const FaultPlan& plan, int number) {
  const PhiloxCounter words = philox({plan.seed}, counter_of(uint64_t(number), 0));
  const PhiloxCounter more = philox({plan.seed}, counter_of(uint64_t(number), 1));
  const double uniform = (double(words[0]) + 0.5) * 0x1p-32;
  return {.kind = plan.kinds[chosen(words[1], plan.kinds.size())],
          .after_s = -plan.mtbf_s * std::log(uniform),
          .target = words[2],
          .place = words[3],
          .file = more[0]};
}

}  // namespace trireme
