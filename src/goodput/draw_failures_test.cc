#include "goodput/draw_failures.h"

#include <gtest/gtest.h>

#include <cmath>

#include "goodput/spares.h"

namespace trireme {
namespace {

std::vector<JobCause> causes() {
  return {{.name = "device", .domain = FailureDomain::Device, .per_day = 6.0},
          {.name = "rack", .domain = FailureDomain::Rack, .per_day = 1.0},
          {.name = "bug", .domain = FailureDomain::Process, .per_day = 3.0}};
}

FailingJob job_of(int64_t hosts, int64_t spares) {
  return {.causes = causes(),
          .hosts = hosts,
          .hosts_per_rack = 4,
          .hosts_per_pod = 64,
          .spares = spares,
          .repair_s = kSecondsOfDay};
}

TEST(DrawFailures, CountsFollowTheRatesAndTheSeedDecidesAll) {
  const double days = 2000.0;
  const auto failures = draw_failures(job_of(1000, 1000), days * kSecondsOfDay, 3);
  std::vector<int> counts(3, 0);
  double before = 0.0;
  for (const FailureEvent& event : failures) {
    EXPECT_GE(event.at_s, before);
    before = event.at_s;
    ++counts[size_t(event.cause)];
    EXPECT_EQ(event.wait_s, 0.0);  // so many spares are never used up
  }
  for (size_t i = 0; i < 3; ++i) {
    const double expected = causes()[i].per_day * days;
    EXPECT_NEAR(counts[i], expected, 5.0 * std::sqrt(expected)) << i;
  }
  const auto again = draw_failures(job_of(1000, 1000), days * kSecondsOfDay, 3);
  ASSERT_EQ(again.size(), failures.size());
  EXPECT_EQ(again.back().at_s, failures.back().at_s);
  EXPECT_NE(draw_failures(job_of(1000, 1000), days * kSecondsOfDay, 4).back().at_s,
            failures.back().at_s);
}

// The 99th percentile of hosts in repair is enough in about 99 of 100 failures; with no spare,
// every lost host is waited for.
TEST(DrawFailures, AJobWithTheSparesOfTheForecastRarelyWaits) {
  FailureRates rates{.devices_per_host = 8, .hosts_per_rack = 4, .repair_hours = 24.0};
  rates.causes = {{.name = "device", .domain = FailureDomain::Device, .per_host_day = 6e-3},
                  {.name = "rack", .domain = FailureDomain::Rack, .per_host_day = 1e-3}};
  const Spares spares = spares_of_job(rates, 8000);
  const auto late_share = [&](int64_t count) {
    const auto failures = draw_failures(failing_job(rates, 8000, count), 2000.0 * kSecondsOfDay, 1);
    int late = 0;
    for (const FailureEvent& event : failures) late += event.wait_s > 0.0 ? 1 : 0;
    return double(late) / double(failures.size());
  };
  EXPECT_LT(late_share(spares.hosts), 0.03);
  EXPECT_GT(late_share(int64_t(spares.mean_in_repair)), 0.2);
  EXPECT_EQ(late_share(0), 1.0);
}

// A tenth of the hosts fails twenty times as often, with the same mean rate at the start. If they
// are replaced after their third failure, fewer failures are left.
TEST(DrawFailures, LemonsKeepTheMeanRateUntilTheyAreDrained) {
  FailingJob lemons = job_of(200, 3);
  lemons.repair_s = 600.0;
  lemons.causes = {{.name = "device", .domain = FailureDomain::Device, .per_day = 10.0}};
  lemons.lemon_share = 0.1;
  lemons.lemon_factor = 20.0;
  const double days = 1000.0;
  const auto count = [&](const FailingJob& job) {
    return double(draw_failures(job, days * kSecondsOfDay, 5).size());
  };
  const double kept = count(lemons);
  FailingJob drained = lemons;
  drained.lemon_drain_after = 3;
  // Lemons in repair are not in use, so that a few failures are missing.
  EXPECT_NEAR(kept, 10.0 * days, 0.15 * 10.0 * days);
  const double without = 10.0 / (0.9 + 0.1 * 20.0) * days;
  EXPECT_NEAR(count(drained), without + 20.0 * 3.0, 0.1 * without);
}

TEST(Spares, AreThePercentileOfABinomialThatCanBeWrittenDown) {
  FailureRates rates{.devices_per_host = 8, .repair_hours = 24.0};
  rates.causes = {{.name = "host", .domain = FailureDomain::Host, .per_host_day = 1.0}};
  // Each of two hosts is in repair half of the time: 0, 1 or 2 with 1/4, 1/2, 1/4.
  EXPECT_EQ(spares_of_job(rates, 16).hosts, 2);
  EXPECT_DOUBLE_EQ(spares_of_job(rates, 16).mean_in_repair, 1.0);
  // Of 1,000 hosts 1 % is in repair: a mean of 10 with a deviation of 3.15, P99 at 18.
  rates.causes.front().per_host_day = 0.01 / 0.99;
  EXPECT_EQ(spares_of_job(rates, 8000).hosts, 18);
  rates.causes.front().domain = FailureDomain::Process;
  EXPECT_EQ(spares_of_job(rates, 8000).hosts, 0);
}

}  // namespace
}  // namespace trireme
