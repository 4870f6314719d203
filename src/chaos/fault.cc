#include "chaos/fault.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "base/philox.h"

namespace trireme {

namespace {

constexpr uint32_t kFirstOrderStream = 2;  // of random numbers; the first two are of single faults

// Names in an option, and what they are.
struct NamesOfOption {
  const char* option;
  const char* what;
  std::span<const std::string_view> names;
};

// The names of "a,b" as numbers in the order of all names, each once.
template <typename Enum>
Result<std::vector<Enum>> values_in(const std::string& list, const NamesOfOption& known) {
  std::vector<Enum> values;
  size_t begin = 0;
  while (begin <= list.size()) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string name = list.substr(begin, end - begin);
    begin = end + 1;
    const auto found = std::find(known.names.begin(), known.names.end(), name);
    if (found == known.names.end()) {
      return usage(fmt::format("{} {}: \"{}\" is no {}; there are {}", known.option, list, name,
                               known.what, fmt::join(known.names, ", ")));
    }
    const auto value = static_cast<Enum>(found - known.names.begin());
    if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  }
  return values;
}

// Every kind comes once in as many faults as there are kinds, in an order that is drawn.
FaultKind kind_of(const FaultPlan& plan, int number) {
  const size_t count = plan.kinds.size();
  const uint64_t round = uint64_t(number) / count;
  std::vector<FaultKind> order = plan.kinds;
  for (size_t left = count; left > 1; --left) {
    const uint32_t word = philox({plan.seed}, counter_of(round, kFirstOrderStream + left))[0];
    std::swap(order[left - 1], order[chosen(word, left)]);
  }
  return order[size_t(number) % count];
}

}  // namespace

Result<std::vector<FaultKind>> fault_kinds_in(const std::string& list) {
  return values_in<FaultKind>(list, {"--faults", "kind of fault", kFaultNames});
}

Result<std::vector<CrashPoint>> crash_points_in(const std::string& list) {
  // A rank that starts has passed its first points before anybody can ask it to die there.
  const auto first = static_cast<uint32_t>(CrashPoint::Compile);
  const std::span<const std::string_view> names(kCrashPointNames);
  TRIREME_TRY(values, values_in<uint32_t>(list, {"--points", "point", names.subspan(first)}));
  std::vector<CrashPoint> points;
  for (const uint32_t value : values) points.push_back(static_cast<CrashPoint>(value + first));
  if (std::count_if(points.begin(), points.end(), is_of_end) > 1) {
    return usage(
        fmt::format("--points {}: a job has one end, so it is disturbed there once; name "
                    "leave or reported",
                    list));
  }
  std::stable_partition(points.begin(), points.end(), [](auto point) { return !is_of_end(point); });
  return points;
}

PlannedFault planned_fault(const FaultPlan& plan, int number) {
  const PhiloxCounter words = philox({plan.seed}, counter_of(uint64_t(number), 0));
  const PhiloxCounter more = philox({plan.seed}, counter_of(uint64_t(number), 1));
  const double uniform = (double(words[0]) + 0.5) * 0x1p-32;
  return {.kind = kind_of(plan, number),
          .after_s = -plan.mtbf_s * std::log(uniform),
          .target = words[2],
          .place = words[3],
          .file = more[0],
          .point = plan.points.empty() ? CrashPoint::None
                                       : plan.points[size_t(number) % plan.points.size()]};
}

}  // namespace trireme
