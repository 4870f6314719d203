#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "coord/simulated_job_fixture.h"

namespace trireme {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kShortSeeds = 100;
constexpr uint64_t kLongSeeds = 2'000;
#else
constexpr uint64_t kShortSeeds = 2'000;
constexpr uint64_t kLongSeeds = 100'000;
#endif

// Seeds that have broken a law once. They stay here for good.
const std::vector<uint64_t> kOnceBroken = {};

std::string trace_of(uint64_t seed, const MembershipRules& rules) {
  SimulatedJob job(seed, rules, true);
  (void)job.run();
  return job.time().trace();
}

void expect_laws(uint64_t seed) {
  SimulatedJob job(seed, MembershipRules{});
  const std::string broken = job.run();
  EXPECT_EQ(broken, "") << "Add this seed to kOnceBroken. Its trace:\n"
                        << trace_of(seed, MembershipRules{});
}

// Runs seeds from `first` on and stops at the first one that breaks a law.
void expect_laws_of(uint64_t first, uint64_t count) {
  for (uint64_t seed = first; seed < first + count && !testing::Test::HasFailure(); ++seed) {
    expect_laws(seed);
  }
}

// Prints how much happens in the simulated jobs, and how long they take to recover.
TEST(MembershipInFull, DISABLED_Figures) {
  double slowest_s = 0.0, sum_s = 0.0;
  int64_t events = 0, epochs = 0, commits = 0;
  for (uint64_t seed = 1; seed <= kShortSeeds; ++seed) {
    SimulatedJob job(seed, MembershipRules{});
    EXPECT_EQ(job.run(), "");
    slowest_s = std::max(slowest_s, job.recovery_s());
    sum_s += job.recovery_s();
    events += job.time().num_events();
    epochs += job.laws().num_epochs();
    commits += job.laws().num_committed();
  }
  const auto n = double(kShortSeeds);
  std::printf(
      "events %.0f, epochs that ran %.1f, commits %.1f, whole again after %.1f leases, at "
      "most %.1f\n",
      double(events) / n, double(epochs) / n, double(commits) / n,
      sum_s / n / SimulatedJob::kLeaseS, slowest_s / SimulatedJob::kLeaseS);
}

TEST(Membership, LawsHoldForEverySeed) {
  for (const uint64_t seed : kOnceBroken) expect_laws(seed);
  expect_laws_of(1, kShortSeeds);
}

// If only ranks have failed, no lease is waited for: the four changes before the next start are a
// claim, the answers, the fence and the membership, and each takes a few messages.
TEST(Membership, FailedRanksWaitForNoLease) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const auto job = SimulatedJob::with_one_failure(seed, 2 + int(seed % 7));
    EXPECT_EQ(job->run(), "") << job->time().trace();
    EXPECT_EQ(job->laws().newest()->epoch, 2) << job->time().trace();
    EXPECT_GT(job->last_start_s(), SimulatedJob::kFailureS);
    EXPECT_LT(job->last_start_s() - SimulatedJob::kFailureS,
              12 * SimulatedJob::kLongestQuietDelayS);
  }
}

struct Mutation {
  const char* name;
  MembershipRules rules;
};
const Mutation kMutations[] = {
    {"NoFence", {.fences_writes = false}},
    {"RanksRunBeyondTheLease", {.stops_before_lease = false}},
    {"NoHalfIsNeeded", {.needs_half = false}},
    {"VersionsAreNotCompared", {.compares_versions = false}},
    {"ManyAreNotWaitedFor", {.waits_for_many = false}},
};

class MembershipMutation : public testing::TestWithParam<Mutation> {};

// Each rule is needed: without it one of the seeds of this test breaks a law.
TEST_P(MembershipMutation, IsNoticed) {
  for (uint64_t seed = 1; seed <= kShortSeeds; ++seed) {
    SimulatedJob job(seed, GetParam().rules);
    if (const std::string broken = job.run(); !broken.empty()) {
      RecordProperty("noticed_by", broken);
      return;
    }
  }
  ADD_FAILURE() << "No law was broken by the first " << kShortSeeds << " seeds.";
}

// Prints how many seeds notice each mutation.
TEST(MembershipInFull, DISABLED_SeedsThatNoticeAMutation) {
  for (const Mutation& mutation : kMutations) {
    int num_noticed = 0;
    std::map<std::string, int> laws;  // how often each was broken, without the numbers
    for (uint64_t seed = 1; seed <= kShortSeeds; ++seed) {
      SimulatedJob job(seed, mutation.rules);
      std::string broken = job.run();
      if (broken.empty()) continue;
      ++num_noticed;
      std::erase_if(broken, [](char c) { return c >= '0' && c <= '9'; });
      ++laws[broken.substr(broken.find(':') + 2)];
    }
    std::printf("%s: %d of %d seeds\n", mutation.name, num_noticed, int(kShortSeeds));
    for (const auto& [law, count] : laws) std::printf("  %5d %s\n", count, law.c_str());
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, MembershipMutation, testing::ValuesIn(kMutations),
                         [](const auto& info) { return std::string(info.param.name); });

// `make test-all` runs it.
TEST(MembershipInFull, DISABLED_LawsHoldForEverySeed) { expect_laws_of(1, kLongSeeds); }

}  // namespace
}  // namespace trireme
