#include "predict/hidden_comm.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "planner/make_plan.h"
#include "planner/small_run_fixture.h"
#include "predict/predict.h"

namespace trireme {
namespace {

// A pipeline of one rank and two chunks, whose experts are on two ranks.
RunPlan plan_with_experts(bool pair, int64_t microbatches, int64_t d_ff = 64) {
  RunConfig config = small_run(ModelFamily::Moe);
  config.model.d_ff = d_ff;
  config.batch.global_sequences = 2 * microbatches;
  config.parallel.dp = config.parallel.ep = 2;
  config.parallel.schedule = ScheduleKind::DualpipeV;
  config.parallel.pair = pair;
  return make_plan(config, {}).value();
}

Hardware with_link(double bytes_per_s) {
  Hardware hardware = two_nodes();
  hardware.set_nodes(1, {0.0, 1e15}, {0.0, bytes_per_s});
  return hardware;
}

double exposed_ep_s(const RunPlan& plan, const Hardware& hardware) {
  const size_t ep = size_t(std::ranges::find(kTrafficAxes, "ep") - kTrafficAxes.begin());
  return predict_stages(plan, hardware).front().exposed.at(ep);
}

// The schedule has 3 F and 3 BW without a partner. On a link so fast that each exchange is shorter
// than the piece beside it, their exchanges are all that is exposed.
TEST(HiddenComm, OnlyActionsWithoutAPartnerExposeWhatIsShorterThanThePieceBesideIt) {
  const Hardware fast = with_link(1e12);
  for (const int64_t microbatches : {4, 8, 16, 64}) {
    const double apart_s = exposed_ep_s(plan_with_experts(false, microbatches), fast);
    const double beside_s = exposed_ep_s(plan_with_experts(true, microbatches), fast);
    EXPECT_NEAR(beside_s / apart_s, 3.0 / double(2 * microbatches), 1e-6) << microbatches;
  }
}

// Exchanges that are longer than all computation hide behind all that stands beside them. The part
// beside experts that compute ten times as long is then the larger one.
TEST(HiddenComm, ALongExchangeHidesAsMuchAsThePieceBesideItComputes) {
  const Hardware slow = with_link(1e6);
  const auto hidden_s = [&](int64_t d_ff) {
    return exposed_ep_s(plan_with_experts(false, 8, d_ff), slow) -
           exposed_ep_s(plan_with_experts(true, 8, d_ff), slow);
  };
  const double narrow_s = hidden_s(64), wide_s = hidden_s(640);
  EXPECT_GT(narrow_s, 0.0);
  EXPECT_GT(wide_s, narrow_s);
  const double compute_s = predict_stages(plan_with_experts(true, 8, 640), slow).front().compute;
  EXPECT_LT(wide_s, compute_s);
}

// A byte that is hidden takes the core for a while, but no longer than the link takes for it. What
// is exposed stays.
TEST(HiddenComm, HiddenBytesTakeTheCore) {
  const double bytes_per_s = 1e7;
  const RunPlan beside = plan_with_experts(true, 8), apart = plan_with_experts(false, 8);
  const auto times = [&](const RunPlan& plan, double core_s_per_byte) {
    Hardware hardware = with_link(bytes_per_s);
    hardware.core_s_per_byte = core_s_per_byte;
    return predict_stages(plan, hardware).front();
  };
  const double free_s = times(beside, 0.0).step, half_s = times(beside, 0.5 / bytes_per_s).step;
  const double whole_s = times(beside, 1.0 / bytes_per_s).step;
  EXPECT_GT(half_s, free_s);
  EXPECT_NEAR(whole_s - free_s, 2.0 * (half_s - free_s), 1e-9);
  EXPECT_DOUBLE_EQ(times(beside, 3.0 / bytes_per_s).step, whole_s);
  EXPECT_NEAR(whole_s, times(apart, 0.0).step, 1e-9);
  EXPECT_NEAR(times(beside, 1.0 / bytes_per_s).exposed_comm, times(beside, 0.0).exposed_comm,
              1e-12);
  EXPECT_DOUBLE_EQ(times(apart, 1.0 / bytes_per_s).step, times(apart, 0.0).step);
}

// As the stages, what lies beside an exchange has the price of the device that is fastest at it,
// also if the file has that one behind a slower one.
TEST(HiddenComm, DoesNotDependOnWhichDeviceOfAMixedClusterComesFirst) {
  const Hardware fast = with_link(1e6);
  Hardware slow = fast;
  for (double Hardware::*speed :
       {&Hardware::fp32_flops, &Hardware::bf16_flops, &Hardware::memory_bytes_per_s}) {
    slow.*speed /= 3.0;
  }
  const auto exposed_s = [](Hardware first, const Hardware& second) {
    first.others.push_back({.label = "second", .first_rank = 1, .device = second});
    return exposed_ep_s(plan_with_experts(true, 8, 640), first);
  };
  EXPECT_DOUBLE_EQ(exposed_s(slow, fast), exposed_s(fast, slow));
}

}  // namespace
}  // namespace trireme
