#include "planner/layout_refusals.h"

#include <fmt/format.h>

#include "base/units.h"

namespace trireme {

void LayoutRefusals::add(const LayoutChoice& layout, const Refusal& refusal, int64_t count) {
  const auto [found, is_new] = refused_.try_emplace(refusal.rule);
  if (is_new) found->second = {refusal.rule, 0, layout, refusal.message};
  found->second.count += count;
}

void LayoutRefusals::add_memory(const LayoutChoice& layout, const NeededBytes& needed,
                                int64_t count) {
  const int64_t bytes = limit_.limited(needed);
  if (!leanest_ || bytes < leanest_bytes_) {
    leanest_ = layout;
    leanest_bytes_ = bytes;
  }
  // Most layouts of a large search are refused here, so a message is made for the first one only.
  if (const auto known = refused_.find("memory"); known != refused_.end()) {
    known->second.count += count;
    return;
  }
  add(layout,
      {"memory",
       fmt::format("needs at least {}, {} available", format_bytes(bytes), limit_.text())},
      count);
}

std::vector<RefusedLayouts> LayoutRefusals::by_rule() const {
  std::vector<RefusedLayouts> all;
  for (const auto& [rule, refused] : refused_) all.push_back(refused);
  return all;
}

}  // namespace trireme
