#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "observe/plan_page.h"
#include "planner/search_layout.h"

namespace trireme {

// What `trireme plan --search` found.
struct FoundLayouts {
  LayoutSearch search;
  Hardware hardware;
  const RunConfig& config;  // that was asked about
  std::string options;      // that give train this configuration
  int num_ranks = 1;
};

// The best, a row each.
PageTable search_table(const LayoutSearch& search);

// The same table and the command that runs its first line; with `explain` why the others are out.
std::string search_text(const FoundLayouts& found, bool explain);
nlohmann::ordered_json search_json(const FoundLayouts& found);

}  // namespace trireme
