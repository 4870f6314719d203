#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/search_layout.h"

namespace trireme {

// A layout that is chosen by a rule of thumb, with everything else at its best.
struct SimpleChoice {
  std::string name;                  // such as "pure FSDP"
  std::optional<PricedLayout> best;  // absent if none of its layouts is feasible
  std::string refusal;               // why none is
};

// Searches the layouts of each rule of thumb that has any on so many ranks: ZeRO 3 over all ranks;
// tp in the node and dp for the rest; tp in the node, pp across nodes and dp for the rest.
std::vector<SimpleChoice> price_simple_choices(const RunConfig& config, const HostFacts& host,
                                               const Hardware& hardware, int num_ranks);

// By what share a layout is slower than the fastest of `best`.
double regret_of(const PricedLayout& priced, const std::vector<PricedLayout>& best);

// One sentence that names the settings in which two layouts differ, with the values of `other`
// first, what they cost in time and memory, and which part of the step takes most of that time.
std::string difference_text(const PricedLayout& best, const PricedLayout& other);

}  // namespace trireme
