#include <gtest/gtest.h>

#include <cstdlib>

#include "base/clock.h"
#include "raft/simulated_run_fixture.h"

namespace trireme {
namespace {

// Runs seeds until one breaks a law, and prints its trace.
void run_seeds(uint64_t first, uint64_t num_seeds) {
  int64_t events = 0, leaders = 0, commits = 0, disks = 0, snapshots = 0, changes = 0;
  double slowest_s = 0.0;
  const int64_t begin_ns = monotonic_ns();
  for (uint64_t seed = first; seed < first + num_seeds; ++seed) {
    SimulatedRun run(seed);
    const std::string broken = run.run();
    if (!broken.empty()) {
      SimulatedRun again(seed, true);
      again.run();
      const std::string& trace = again.time().trace();
      const size_t begin = trace.size() > 6000 ? trace.size() - 6000 : 0;
      FAIL() << broken << " (after " << seed - first << " seeds)\n" << trace.substr(begin);
    }
    events += run.time().num_events();
    leaders += run.laws().num_leaders();
    commits += run.laws().num_committed();
    disks += run.cluster().num_failed_disks();
    snapshots += run.cluster().num_snapshots_sent();
    changes += run.cluster().num_members_changed();
    slowest_s = std::max(slowest_s, run.recovered_s());
  }
  const double seconds = double(monotonic_ns() - begin_ns) * 1e-9;
  // The faults that the runs are about did happen.
  EXPECT_GT(leaders, int64_t(num_seeds));
  EXPECT_GT(disks, 0);
  EXPECT_GT(snapshots, 0);
  EXPECT_GT(changes, 0);
  std::printf(
      "%.0f seeds/s; a seed: %.0f events, %.1f leaders, %.1f commits, %.2f failed disks, %.2f "
      "snapshots sent, %.2f changes of members; at most %.1f s until everything was answered\n",
      double(num_seeds) / seconds, double(events) / double(num_seeds),
      double(leaders) / double(num_seeds), double(commits) / double(num_seeds),
      double(disks) / double(num_seeds), double(snapshots) / double(num_seeds),
      double(changes) / double(num_seeds), slowest_s);
}

TEST(RaftSimulation, LawsHoldWhileServersDisksAndMessagesFail) { run_seeds(1, 1000); }

// Also a means to repeat one seed: RAFT_SEED=n.
TEST(RaftInFull, DISABLED_LawsHoldForAHundredThousandSeeds) {
  const char* seed = std::getenv("RAFT_SEED");
  if (seed != nullptr) return run_seeds(std::strtoull(seed, nullptr, 10), 1);
  run_seeds(1, 100'000);
}

}  // namespace
}  // namespace trireme
