#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/memory_limit.h"
#include "planner/search_layout.h"

namespace trireme {

// Why a layout is refused.
struct Refusal {
  std::string rule;  // a key of the configuration, "schedule" or "memory"
  std::string message;
};

// The layouts that a search has refused, counted by rule.
class LayoutRefusals {
 public:
  explicit LayoutRefusals(const MemoryLimit& limit) : limit_(limit) {}

  void add(const LayoutChoice& layout, const Refusal& refusal, int64_t count);
  // Refuses a layout that needs at least so much memory.
  void add_memory(const LayoutChoice& layout, const NeededBytes& needed, int64_t count);

  // The smallest of the layouts that need too much memory, and what it needs at least.
  const std::optional<LayoutChoice>& leanest() const { return leanest_; }
  int64_t leanest_bytes() const { return leanest_bytes_; }
  std::vector<RefusedLayouts> by_rule() const;  // sorted by rule

 private:
  const MemoryLimit& limit_;
  std::map<std::string, RefusedLayouts> refused_;
  std::optional<LayoutChoice> leanest_;
  int64_t leanest_bytes_ = 0;
};

}  // namespace trireme
