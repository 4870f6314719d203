#include "planner/roofline.h"

#include <gtest/gtest.h>

#include "compile/unit_price.h"

namespace trireme {
namespace {

Hardware device_of(double flops, double bytes_per_s, double launch_s) {
  Hardware hardware;
  hardware.name = "device";
  hardware.fp32_flops = hardware.bf16_flops = hardware.fp16_flops = flops;
  hardware.memory_bytes_per_s = bytes_per_s;
  hardware.launch_s = launch_s;
  return hardware;
}

RunPlan started_run(ModelFamily family, int64_t seq_len, int tp) {
  RunConfig config;
  config.model.family = family;
  config.model.layers = 2;
  config.model.d_model = 256;
  config.model.heads = 8;
  config.model.vocab_size = 512;
  config.model.seq_len = seq_len;
  config.batch.micro_sequences = 2;
  config.parallel.tp = tp;
  return start_plan(config, {}).value();
}

// On every device and for every shape no op is above the roof, the times are those by which plans
// are priced, and what bounds an op is the limit that alone takes the longest.
TEST(Roofline, PointsLieUnderTheRoofAndAddUpToThePrice) {
  for (const ModelFamily family : {ModelFamily::Gpt2, ModelFamily::Llama, ModelFamily::Moe}) {
    for (const int64_t seq_len : {16, 512, 4096}) {
      for (const int tp : {1, 4}) {
        const RunPlan plan = started_run(family, seq_len, tp);
        Hardware limited = device_of(1e13, 1e13, 0.0);
        limited.sustained_flops = 4e12;
        limited.matmul_depth = 300.0;
        for (const Hardware& hardware : {device_of(1e15, 3e12, 3e-5), device_of(1e11, 2e10, 0.0),
                                         device_of(1e13, 1e13, 0.0), limited}) {
          const Roofline roof = roofline(plan.model, plan.shape, hardware);
          double layer_s = 0.0, head_s = 0.0;
          for (const RoofPoint& point : roof.points) {
            EXPECT_LE(point.flops_per_s(), roof.roof_at(point.flops_per_byte()) * (1.0 + 1e-9))
                << point.op << " " << point.pass;
            (point.unit == "layer" ? layer_s : head_s) += point.seconds;
          }
          const UnitPrices prices = price_units(plan.model, plan.shape, hardware);
          EXPECT_GE(layer_s, prices.layers.front().total_s() * (1.0 - 1e-9));
          EXPECT_NEAR(head_s, prices.head.total_s(), 1e-9 * head_s);
          EXPECT_DOUBLE_EQ(roof.roof_at(roof.ridge()), roof.peak_flops);
        }
      }
    }
  }
}

// An op of many FLOPs per byte is bound by the peak, one of few by the bandwidth, and every op by
// the launch of its kernels if that takes long enough.
TEST(Roofline, TheBoundFollowsTheDevice) {
  const RunPlan plan = started_run(ModelFamily::Gpt2, 512, 1);
  const auto bounds_on = [&](const Hardware& hardware, RoofBound bound) {
    int count = 0;
    for (const RoofPoint& point : roofline(plan.model, plan.shape, hardware).points) {
      if (point.bound != bound) continue;
      ++count;
      // Only the depth of products and the shares of the peak lie between the roofs.
      if (bound == RoofBound::Bandwidth) {
        EXPECT_LT(point.flops_per_byte(), 2.0 * 1e14 / 1e12);
      }
    }
    return count;
  };
  const int all = int(roofline(plan.model, plan.shape, device_of(1e14, 1e12, 0.0)).points.size());
  EXPECT_EQ(bounds_on(device_of(1e14, 1e12, 1.0), RoofBound::Launch), all);
  EXPECT_EQ(bounds_on(device_of(1e14, 1e12, 0.0), RoofBound::Launch), 0);
  EXPECT_GT(bounds_on(device_of(1e14, 1e12, 0.0), RoofBound::Bandwidth), 0);
  EXPECT_GT(bounds_on(device_of(1e12, 1e12, 0.0), RoofBound::Peak), 0);
}

// A power limit lowers the FLOPs of products, never their bytes: what the peak bounds without it,
// it bounds with it.
TEST(Roofline, ThePowerLimitIsALimitOfThePeak) {
  RunConfig config;
  config.model.d_model = 1024;
  config.model.heads = 8;
  config.model.vocab_size = 512;
  config.model.seq_len = 512;
  config.batch.micro_sequences = 2;
  config.precision.compute = ComputeChoice::Bf16;
  const RunPlan plan = start_plan(config, {}).value();
  Hardware hardware = device_of(1e15, 1e12, 0.0);
  const Roofline free = roofline(plan.model, plan.shape, hardware);
  hardware.sustained_flops = 1e13;
  const Roofline limited = roofline(plan.model, plan.shape, hardware);
  ASSERT_EQ(free.points.size(), limited.points.size());
  int num_products = 0;
  for (size_t i = 0; i < free.points.size(); ++i) {
    const RoofPoint &a = free.points[i], &b = limited.points[i];
    if (a.bound == RoofBound::Peak) {
      EXPECT_EQ(b.bound, RoofBound::Peak) << a.op << a.pass;
    }
    if (b.kind == OpKind::Linear) {
      EXPECT_EQ(b.bound, RoofBound::Peak) << b.op << b.pass;
      EXPECT_LE(b.flops_per_s(), 1e13 * (1.0 + 1e-9));
      ++num_products;
    }
  }
  EXPECT_GT(num_products, 0);
}

}  // namespace
}  // namespace trireme
