#include "goodput/forecast.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "config/failure_rates_file.h"

namespace trireme {
namespace {

FailureRates rates_of(double per_host_day, double restart_s) {
  FailureRates rates{.name = "test", .restart_s = restart_s, .repair_hours = 24.0};
  rates.causes = {{.name = "host", .domain = FailureDomain::Host, .per_host_day = per_host_day}};
  return rates;
}

GoodputQuestion question_of(FailureRates rates, int64_t devices, double save_s) {
  return {.rates = std::move(rates),
          .devices = devices,
          .days = 54.0,
          .step_s = 1.0,
          .disk_save_s = save_s,
          .memory_save_s = 1.0,
          .most_runs = 100};
}

// Llama 3: 419 unexpected interruptions of 16,384 devices in 54 days, more than 90 % effective.
TEST(Forecast, OfLlama3HasThePublishedInterruptionsAndMoreThanNinetyPercent) {
  const FailureRates rates = load_failure_rates("llama3").value();
  ASSERT_EQ(rates.causes.size(), 18u);
  EXPECT_NEAR(mttf_s(rates, 16384) / 3600.0, 3.09, 0.005);
  const GoodputForecast forecast = forecast_goodput(question_of(rates, 16384, 1.0)).value();
  double count = 0.0;
  for (const CauseCost& cost : forecast.by_cause) count += cost.count;
  EXPECT_NEAR(count, 419.0, 1e-6);
  EXPECT_NEAR(forecast.by_cause.front().count, 148.0, 1e-9);
  EXPECT_GT(forecast.mean, 0.90);
  EXPECT_GT(forecast.percentile(0.05), 0.90);
  // A quarter of an hour for each restart leaves 0.906 by the formula.
  FailureRates slower = rates;
  slower.restart_s = 900.0;
  EXPECT_NEAR(forecast_goodput(question_of(slower, 16384, 1.0))->formula, 0.906, 0.002);
}

// One printed share of the table does not belong to its count.
TEST(Forecast, FindsTheOneShareOfTheTableThatIsWrong) {
  const FailureRates rates = load_failure_rates("llama3").value();
  double sum = 0.0;
  for (const FailureCause& cause : rates.causes) sum += cause.per_host_day;
  std::vector<std::string> wrong;
  for (const FailureCause& cause : rates.causes) {
    if (std::abs(cause.per_host_day / sum - cause.printed_share) > 0.001)
      wrong.push_back(cause.name);
  }
  EXPECT_EQ(wrong, std::vector<std::string>{"Faulty GPU"});
}

// Kokolis et al. 2025, figure 7: measured at 8 and 1,024 devices, projected at the others.
TEST(Forecast, OfKokolisHasTheTimesBetweenFailuresOfTheFigure) {
  const FailureRates rates = load_failure_rates("kokolis").value();
  EXPECT_NEAR(mttf_s(rates, 8) / 3600.0, 1144.8, 0.05);
  EXPECT_NEAR(mttf_s(rates, 1024) / 3600.0, 7.9, 0.005);
  EXPECT_NEAR(mttf_s(rates, 16384) / 3600.0, 1.803, 0.001);
  EXPECT_NEAR(mttf_s(rates, 131072) / 3600.0, 0.225, 0.001);
  double before = std::numeric_limits<double>::infinity();
  for (int64_t devices = 8; devices <= 131072; devices += 8) {
    const double now = mttf_s(rates, devices);
    ASSERT_LE(now, before * (1.0 + 1e-12)) << devices;  // a larger job never fails more rarely
    before = now;
  }
}

// The simulation agrees with the formula within two points where the formula says that it holds:
// where failures lose at most a fifth of the time.
TEST(Forecast, SimulationAndFormulaAgreeWhereTheFormulaHolds) {
  int held = 0;
  for (const int64_t devices : {1024, 12000, 16384}) {
    for (const double per_host_day : {1e-3, 3.8e-3, 6.5e-3}) {
      for (const double save_s : {1.0, 10.0, 300.0}) {
        const auto forecast =
            forecast_goodput(question_of(rates_of(per_host_day, 300.0), devices, save_s)).value();
        if (!forecast.formula_holds) continue;
        ++held;
        EXPECT_NEAR(forecast.mean, forecast.formula, 0.02)
            << devices << " devices, " << per_host_day << ", save " << save_s;
      }
    }
  }
  EXPECT_GE(held, 20);
}

// The published shares at 12,000 devices come out of the simulation, too.
TEST(Forecast, OfTwelveThousandDevicesIsThePublishedShare) {
  const auto mean = [](double per_host_day, double save_s) {
    return forecast_goodput(question_of(rates_of(per_host_day, 300.0), 12000, save_s))->mean;
  };
  EXPECT_NEAR(mean(6.5e-3, 300.0), 0.74, 0.02);
  EXPECT_NEAR(mean(1e-3, 300.0), 0.90, 0.02);
  EXPECT_NEAR(mean(6.5e-3, 10.0), 0.92, 0.02);
}

TEST(Forecast, SharesAndLossesAddUpAndTheBestIntervalIsNearYoungs) {
  const auto forecast =
      forecast_goodput(question_of(load_failure_rates("llama3").value(), 16384, 30.0)).value();
  EXPECT_NEAR(forecast.mean + forecast.saving_share + forecast.down_share + forecast.redone_share,
              1.0, 1e-9);
  EXPECT_LT(forecast.percentile(0.05), forecast.mean);
  EXPECT_GT(forecast.percentile(0.95), forecast.mean);
  EXPECT_GT(forecast.simulated.disk_s, forecast.young.disk_s / 2.0);
  EXPECT_LT(forecast.simulated.disk_s, forecast.young.disk_s * 2.0);
  for (size_t i = 1; i < forecast.changes.size(); ++i) {
    EXPECT_GE(forecast.changes[i - 1].gain, forecast.changes[i].gain);
  }
  EXPECT_GT(forecast.changes.front().gain, 0.01);
}

// What lowers the share, or leaves it as it is, is no change that would raise it.
TEST(Forecast, EveryChangeRaisesTheShare) {
  for (const int devices : {8, 64, 16384}) {
    const auto forecast =
        forecast_goodput(question_of(load_failure_rates("llama3").value(), devices, 30.0)).value();
    for (const GoodputChange& change : forecast.changes) {
      EXPECT_GE(change.gain, 5e-5) << change.change << " on " << devices << " devices";
    }
  }
}

// With checkpoints in memory, only failures of racks go back to the disk: a rack whose failures
// take one host only raises the share.
TEST(Forecast, ASmallerBlastRadiusHelpsWhereMemorySurvivesAHost) {
  GoodputQuestion question = question_of(load_failure_rates("llama3").value(), 16384, 60.0);
  question.has_memory_tier = true;
  question.memory_interval_s = 20.0;
  question.disk_interval_s = 3600.0;
  const GoodputForecast forecast = forecast_goodput(question).value();
  double gain = 0.0;
  for (const GoodputChange& change : forecast.changes) {
    if (change.change.find("racks") != std::string::npos) gain = change.gain;
  }
  EXPECT_GT(gain, 0.001);
  ASSERT_TRUE(forecast.configured.has_value());
  EXPECT_LT(forecast.configured->mean, forecast.mean + 0.001);
  EXPECT_LT(forecast.simulated.memory_s, forecast.simulated.disk_s);
}

TEST(Forecast, RefusesFailuresThatCannotBeSimulated) {
  const auto refused = forecast_goodput(question_of(rates_of(1e6, 1.0), 8000, 1.0));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("--days"), std::string::npos);
}

}  // namespace
}  // namespace trireme
