#pragma once

#include <future>
#include <map>
#include <optional>
#include <string>

#include "agent/rank_processes.h"
#include "base/input_file.h"
#include "compile/run_plan.h"
#include "planner/smaller_layout.h"
#include "session/rank_hardware.h"

namespace trireme {

LayoutChange change_of(const std::string& name);  // any, dp or same

// Finds the layouts that a job of `trireme launch` takes with fewer ranks. It searches on threads
// of its own, because the leader of a job must not wait: agents would miss its answers.
class LaunchLayouts {
 public:
  // `ranks_per_host` is 0 if all ranks are on this host.
  LaunchLayouts(RunConfig config, HostFacts host, int ranks_per_host, LayoutChange change,
                OpenInput open_input);

  // RankProcesses::fitting. A layout that was found for a number of ranks stays.
  std::optional<FittingLayout> fitting(int most_ranks, const JobPage& page);

 private:
  FittingLayout find(int most_ranks, const std::optional<MeasuredMachine>& measured) const;
  Hardware share_of_rank(const MeasuredMachine& measured, int num_ranks) const;
  double cores_of_rank(int num_ranks) const;

  RunConfig config_;
  HostFacts host_;
  int ranks_per_host_;
  LayoutChange change_;
  OpenInput open_input_;
  EpochLayout layout_;
  std::map<int, std::shared_future<FittingLayout>> found_;  // by the number of ranks
};

}  // namespace trireme
