#pragma once

#include <functional>
#include <optional>

#include "base/result.h"
#include "compile/run_plan.h"
#include "schema/hardware.h"

namespace trireme {

// Which keys of its layout a job may change if it has fewer ranks than its configuration needs.
// Any: those that keep the numbers. With run.reproducible = "layout" these are dp, pp, ZeRO, the
// schedule and recomputation, with "mesh" tp, too. With "fixed" the same keys as with "mesh" may
// change, but every change, also that of dp, changes the last bits.
enum class LayoutChange { None, Dp, Any };

// The ranks that a job has left.
struct FewerRanks {
  int most_ranks = 1;
  int ranks_per_host = 0;  // 0: all ranks are on one host
  LayoutChange change = LayoutChange::Any;
  // Returns one rank's share of the hosts if there are so many ranks; nullopt if it is not known.
  // Then only dp can change.
  std::function<std::optional<Hardware>(int num_ranks)> hardware = {};
  // Asked between the numbers of ranks that are tried. False: what was found so far is taken.
  std::function<bool()> has_time = [] { return true; };
};

// A layout with other keys than dp must be faster by so much, because it is only predicted.
inline constexpr double kWorthChanging = 0.05;

// Returns the configuration with the layout that a job takes with at most so many ranks. The batch
// and everything that is trained stay the same. The greatest dp that divides the configured one is
// taken if it uses all ranks. Else the layout search tries layouts with more ranks than that dp
// uses, and the fastest is taken if it is faster than that dp. Infeasible if no layout is left.
Result<RunConfig> smaller_layout(const RunConfig& config, const HostFacts& host,
                                 const FewerRanks& ranks);

}  // namespace trireme
