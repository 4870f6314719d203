#include "goodput/simulate_job.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/philox.h"

namespace trireme {
namespace {

const std::vector<JobCause> kCauses = {
    {.name = "host", .domain = FailureDomain::Host, .per_day = 30.0, .restart_s = 70.0},
    {.name = "rack", .domain = FailureDomain::Rack, .per_day = 10.0, .restart_s = 130.0},
    {.name = "bug", .domain = FailureDomain::Process, .per_day = 20.0, .restart_s = 11.0}};

double all_of(const JobTime& time) {
  const auto sum = [](const auto& values) {
    return std::accumulate(values.begin(), values.end(), 0.0);
  };
  return time.useful_s + time.saving_s + sum(time.down_s) + sum(time.redone_s);
}

// The same job, told in single seconds: all times are whole numbers of them.
JobTime told_by_seconds(const std::vector<FailureEvent>& failures, const JobPolicy& policy,
                        int seconds) {
  struct Save {
    int work_s = 0;
    int usable_at = 0;
  };
  JobTime time;
  time.down_s.resize(kCauses.size());
  time.redone_s.resize(kCauses.size());
  time.failures.resize(kCauses.size());
  int work = 0, down_until = 0, hosts_at = 0, down_by = -1, saving = 0;
  Save disk, memory, disk_in_progress, memory_in_progress;
  bool saves_disk = false;
  size_t next = 0;
  const int memory_every = policy.memory ? int(policy.memory->interval_s) : 0;
  for (int now = 0; now < seconds; ++now) {
    while (next < failures.size() && int(failures[next].at_s) == now) {
      const auto cause = size_t(failures[next].cause);
      if (disk_in_progress.usable_at != 0 && disk_in_progress.usable_at <= now) {
        disk = disk_in_progress;
      }
      if (memory_in_progress.usable_at != 0 && memory_in_progress.usable_at <= now) {
        memory = memory_in_progress;
      }
      const bool from_memory = policy.resumes_from_memory(kCauses[cause].domain);
      const int back_to = from_memory ? std::max(memory.work_s, disk.work_s) : disk.work_s;
      time.redone_s[cause] += work - back_to;
      ++time.failures[cause];
      work = back_to;
      memory.work_s = back_to;
      disk_in_progress = memory_in_progress = {};
      saving = 0;
      hosts_at = std::max(hosts_at, now + int(failures[next].wait_s));
      down_until = hosts_at + int(kCauses[cause].restart_s);
      down_by = int(cause);
      ++next;
    }
    if (now < down_until) {
      time.down_s[size_t(down_by)] += 1.0;
      continue;
    }
    if (saving > 0) {
      time.saving_s += 1.0;
    } else {
      ++work;
      const bool is_memory = memory_every > 0 && work % memory_every == 0;
      saves_disk = work % int(policy.disk.interval_s) == 0;
      saving =
          int(is_memory ? policy.memory->save_s : 0.0) + int(saves_disk ? policy.disk.save_s : 0.0);
      if (saving == 0) continue;
      if (is_memory) {
        memory_in_progress = {work, now + 1 + int(policy.memory->save_s + policy.memory->delay_s)};
      }
      if (saves_disk) disk_in_progress = {work, now + 1 + saving + int(policy.disk.delay_s)};
      continue;
    }
    if (--saving == 0) {
      if (policy.disk.delay_s == 0.0 && saves_disk) disk = disk_in_progress;
      memory = policy.memory ? memory_in_progress : memory;
    }
  }
  time.useful_s = work;
  return time;
}

JobPolicy with_memory(int interval_s, int save_s) {
  return {.disk = {.interval_s = 120.0, .save_s = 9.0},
          .memory = {{double(interval_s), double(save_s), 0.0}},
          .memory_survives = FailureDomain::Host};
}

std::vector<FailureEvent> failures_at_whole_seconds(int count, int seconds, uint64_t seed) {
  std::vector<FailureEvent> failures;
  for (int i = 0; i < count; ++i) {
    const PhiloxCounter words = philox(rng_key(seed, "test"), counter_of(uint64_t(i), 0));
    failures.push_back({double(words[0] % uint32_t(seconds)), int(words[1] % 3),
                        words[2] % 4 == 0 ? double(words[3] % 200) : 0.0});
  }
  std::sort(failures.begin(), failures.end(),
            [](const auto& a, const auto& b) { return a.at_s < b.at_s; });
  return failures;
}

// Jumping over whole cycles gives what counting every second gives, also where failures come while
// the job saves, is down, or waits for hosts.
TEST(SimulateJob, IsTheJobToldInSeconds) {
  constexpr int kSeconds = 20000;
  const std::vector<JobPolicy> policies = {{.disk = {.interval_s = 100.0, .save_s = 10.0}},
                                           {.disk = {.interval_s = 7.0, .save_s = 1.0}},
                                           with_memory(20, 2),
                                           with_memory(120, 1),
                                           with_memory(1, 1)};
  for (size_t p = 0; p < policies.size(); ++p) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const auto failures = failures_at_whole_seconds(60, kSeconds, seed);
      const JobTime one = simulate_job(failures, kCauses, policies[p], kSeconds);
      const JobTime other = told_by_seconds(failures, policies[p], kSeconds);
      ASSERT_NEAR(one.useful_s, other.useful_s, 1e-6) << p << " " << seed;
      ASSERT_NEAR(one.saving_s, other.saving_s, 1e-6) << p << " " << seed;
      for (size_t c = 0; c < kCauses.size(); ++c) {
        ASSERT_NEAR(one.down_s[c], other.down_s[c], 1e-6) << p << " " << seed;
        ASSERT_NEAR(one.redone_s[c], other.redone_s[c], 1e-6) << p << " " << seed;
        ASSERT_EQ(one.failures[c], other.failures[c]);
      }
    }
  }
}

TEST(SimulateJob, AccountsForEverySecond) {
  const FailingJob job{.causes = kCauses, .hosts = 100, .spares = 1, .repair_s = 3000.0};
  for (const double delay : {0.0, 40.0}) {
    JobPolicy policy = with_memory(20, 2);
    policy.disk.delay_s = delay;
    for (uint64_t seed = 1; seed <= 50; ++seed) {
      const double seconds = 5.0 * kSecondsOfDay;
      const auto failures = draw_failures(job, seconds, seed);
      EXPECT_NEAR(all_of(simulate_job(failures, kCauses, policy, seconds)), seconds, 1e-3);
    }
  }
}

// A checkpoint that can be used later, a slower restart, or one tier less never helps.
TEST(SimulateJob, LosesMoreWithLaterCheckpointsAndSlowerRestarts) {
  const FailingJob job{.causes = kCauses, .hosts = 100, .spares = 100, .repair_s = 3000.0};
  const double seconds = 20.0 * kSecondsOfDay;
  const auto failures = draw_failures(job, seconds, 7);
  const auto useful = [&](const JobPolicy& policy) {
    return simulate_job(failures, kCauses, policy, seconds).useful_s;
  };
  const JobPolicy policy = with_memory(20, 0);
  JobPolicy later = policy, slower = policy, disk_only = policy;
  later.disk.delay_s = 60.0;
  slower.restart_factor = 2.0;
  disk_only.memory.reset();
  EXPECT_LT(useful(later), useful(policy));
  EXPECT_LT(useful(slower), useful(policy));
  EXPECT_LT(useful(disk_only), useful(policy));
}

}  // namespace
}  // namespace trireme
