#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "observe/plan_page.h"
#include "planner/search_layout.h"
#include "planner/simple_choices.h"

namespace trireme {

// The result of `trireme plan --search`.
struct FoundLayouts {
  LayoutSearch search;
  Hardware hardware;
  const RunConfig& config;  // the configuration of the command
  std::string options;      // options that give it the found layout
  int num_ranks = 1;
  std::string program = "trireme train";  // what can be run with the options
  std::string arguments;                  // of a job, behind all options
  std::vector<SimpleChoice> simple;       // what rules of thumb would choose
  std::vector<PricedLayout> front;        // for --pareto: what nothing beats in time and memory
};

// The best layouts, one row each.
PageTable search_table(const LayoutSearch& search);

// The table of layouts and the command that runs the first one. With `explain` it adds why the
// others were refused.
std::string search_text(const FoundLayouts& found, bool explain);
nlohmann::ordered_json search_json(const FoundLayouts& found);
nlohmann::ordered_json layout_json(const LayoutChoice& layout);

}  // namespace trireme
