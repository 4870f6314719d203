#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "compile/kernel_price.h"
#include "compile/step_price.h"
#include "compile/this_machine.h"
#include "compile/unit_price.h"
#include "planner/alternatives.h"
#include "planner/make_plan.h"
#include "predict/predict.h"

namespace trireme {
namespace {

RunConfig some_run() {
  RunConfig config;
  config.model.layers = 3;
  config.model.d_model = 64;
  config.model.heads = 4;
  config.model.vocab_size = 300;
  config.model.seq_len = 32;
  config.batch.global_sequences = 8;
  config.batch.micro_sequences = 2;
  return config;
}

Hardware some_hardware() {
  Hardware hardware;
  hardware.fp32_flops = 1e11;
  hardware.bf16_flops = 2e11;
  hardware.memory_bytes_per_s = 1e10;
  return hardware;
}

RunPlan plan_of(const RunConfig& config) {
  const auto plan = make_plan(config, {});
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return *plan;
}

TEST(Price, EveryFlopOfTheModelIsPricedOnceAtThePeak) {
  for (const ComputeChoice compute : {ComputeChoice::Fp32, ComputeChoice::Bf16}) {
    for (const Recompute recompute : kRecomputes) {
      RunConfig config = some_run();
      config.precision.compute = compute;
      config.memory.recompute = recompute;
      const RunPlan plan = plan_of(config);
      Hardware hardware = some_hardware();
      hardware.matmul_share = hardware.attention_share = 1.0;
      hardware.memory_bytes_per_s = 1e20;  // nothing waits for its operands
      const ComputeTimes times =
          price_units(plan.model, plan.shape, hardware).of(whole_model(plan.model));
      const double m = double(plan.num_microbatches);
      // The model's FLOPs count attention's backward as 2 forwards, but it does 2.5.
      const double counted = m * (times.products_s + 3.0 / 3.5 * times.attention_s);
      EXPECT_NEAR(counted * peak_flops(plan, hardware),
                  double(plan.tokens_per_step()) * plan.flops_per_token.total(),
                  1e-6 * counted * peak_flops(plan, hardware));
      const double parts_s = times.products_s + times.attention_s + times.memory_s + times.again_s;
      EXPECT_NEAR(times.total_s(), parts_s, 1e-9 * parts_s);
      const double step_s =
          m * parts_s + price_update(double(plan.num_params), plan.shape, hardware);
      EXPECT_NEAR(predicted_step_s(plan, hardware), step_s, 1e-9 * step_s);
    }
  }
}

TEST(Price, FasterHardwareIsNeverSlowerAndRecomputationNeverFree) {
  const RunPlan plan = plan_of(some_run());
  const double step_s = predicted_step_s(plan, some_hardware());
  EXPECT_GT(step_s, 0.0);
  for (double Hardware::*rate : {&Hardware::bf16_flops, &Hardware::memory_bytes_per_s,
                                 &Hardware::matmul_share, &Hardware::attention_share}) {
    Hardware faster = some_hardware();
    faster.*rate *= 1.5;
    EXPECT_LT(predicted_step_s(plan, faster), step_s);
  }
  double none = 0.0;
  for (const Recompute recompute : kRecomputes) {
    RunConfig config = some_run();
    config.memory.recompute = recompute;
    const RunPlan way = plan_of(config);
    const double recompute_s =
        price_units(way.model, way.shape, some_hardware()).layers.front().again_s;
    EXPECT_TRUE(none == 0.0 ? recompute_s >= 0.0 : recompute_s > none) << name_of(recompute);
    none = recompute_s;
  }
}

// The result of a product is written behind its FLOPs, so matmul_depth counts once for every two
// bytes that a number of a result in bf16 moves. On a processor the fit tells both apart.
TEST(Price, AResultOfMoreBytesMakesAProductDeeperOnAGpu) {
  Hardware hardware = some_hardware();
  hardware.memory_bytes_per_s = 1e15;
  for (const double depth : {0.0, 50.0, 300.0}) {
    for (const int64_t bytes : {2, 4, 8}) {
      hardware.matmul_depth = depth;
      const Product product{512, 768, 1000, 1, bytes};
      Hardware deeper = hardware;
      deeper.matmul_depth = depth * double(bytes) / 2.0;
      EXPECT_DOUBLE_EQ(price_product(product, DType::BF16, hardware),
                       price_product({512, 768, 1000}, DType::BF16, deeper));
      Hardware processor = hardware;
      processor.matmul_bytes_per_s = 1e15;
      const double more_s = double(product.m * product.n * (bytes - 2)) / 1e15;
      EXPECT_NEAR(price_product(product, DType::BF16, processor) - more_s,
                  price_product({512, 768, 1000}, DType::BF16, processor), 1e-15);
    }
  }
}

// The power limit bounds the rate of a product in 16 bits, however its tiles fall. Where it does
// not bind, nothing changes, and fp32 is not made by the units that it slows.
TEST(Price, ThePowerLimitBoundsTheRateOfProductsInSixteenBits) {
  Hardware free = some_hardware();
  free.multiprocessors = 10;
  free.matmul_depth = 100.0;
  free.memory_bytes_per_s = 1e15;
  for (const int64_t m : {1, 127, 2048, 4000}) {
    for (const int64_t n : {96, 2560, 9000}) {
      for (const int64_t k : {64, 1000, 20000}) {
        const Product product{m, n, k};
        for (const DType compute : {DType::F32, DType::F16, DType::BF16}) {
          const double free_s = price_product(product, compute, free);
          double slower_s = free_s;
          for (const double sustained : {1e12, 1.5e11, 9e10, 2e10}) {  // flops per second
            Hardware limited = free;
            limited.sustained_flops = sustained;
            const double limited_s = price_product(product, compute, limited);
            const double limit_s = compute == DType::F32 ? 0.0 : product.flops() / sustained;
            EXPECT_DOUBLE_EQ(limited_s, std::max(free_s, limit_s));
            EXPECT_GE(limited_s, slower_s);
            EXPECT_LE(limited.product_flops(compute), free.product_flops(compute));
            slower_s = limited_s;
          }
        }
      }
    }
  }
}

// Every multiprocessor makes whole tiles of 256 x 128 numbers, and all wait for the last wave. A
// product of less than one wave is cut along its sums instead.
TEST(Price, ProductsTakeWholeWavesOfTiles) {
  Hardware tiled = some_hardware();
  tiled.multiprocessors = 10;
  tiled.memory_bytes_per_s = 1e15;
  Hardware smooth = tiled;
  smooth.multiprocessors = 0;
  const auto seconds = [](int64_t m, int64_t n, int64_t k, const Hardware& hardware) {
    return price_product({m, n, k}, DType::BF16, hardware);
  };
  for (const int64_t waves : {1, 2, 5}) {
    const double full_s = seconds(256 * 10, 128 * waves, 512, tiled);
    EXPECT_DOUBLE_EQ(full_s, seconds(256 * 10, 128 * waves, 512, smooth));
    EXPECT_GT(seconds(256 * 10 + 1, 128 * waves, 512, tiled), full_s);
  }
  for (const int64_t m : {1, 127, 500, 2048, 4000}) {
    for (const int64_t n : {1, 96, 700, 2560, 9000}) {
      for (const int64_t k : {64, 1000}) {
        const double whole_s = seconds(m, n, k, tiled);
        EXPECT_GE(whole_s, seconds(m, n, k, smooth));
        EXPECT_LE(whole_s, seconds(m + 60, n, k, tiled));
        EXPECT_LE(whole_s, seconds(m, n + 60, k, tiled));
        EXPECT_LT(whole_s, seconds(m, n, k + 60, tiled));
      }
    }
  }
}

// The host launches kernels while the device works: a host that is fast enough costs nothing, a
// slow one sets the pace.
TEST(Price, TheSlowerOfHostAndDeviceSetsThePace) {
  const RunPlan plan = plan_of(some_run());
  const auto layer_s = [&](double launch_s, double speed) {
    Hardware hardware = some_hardware();
    hardware.launch_s = launch_s;
    hardware.bf16_flops *= speed;
    hardware.fp32_flops *= speed;
    hardware.memory_bytes_per_s *= speed;
    return price_units(plan, hardware).layers.front().total_s();
  };
  const double device_s = layer_s(0.0, 1.0);
  EXPECT_DOUBLE_EQ(layer_s(device_s * 1e-6, 1.0), device_s);
  const double host_s = layer_s(device_s, 1.0);
  EXPECT_GT(host_s, 3.0 * device_s);
  EXPECT_DOUBLE_EQ(layer_s(device_s, 1e3), host_s);
  EXPECT_DOUBLE_EQ(layer_s(2.0 * device_s, 1.0), 2.0 * host_s);
}

// A host that waits for every kernel adds its launches to the time of the device, whichever is
// slower.
TEST(Price, AHostThatWaitsForEveryKernelAddsItsLaunches) {
  const RunPlan plan = plan_of(some_run());
  const auto layer_s = [&](double launch_s, double speed, bool waits) {
    Hardware hardware = some_hardware();
    hardware.launch_s = launch_s;
    hardware.bf16_flops *= speed;
    hardware.fp32_flops *= speed;
    hardware.memory_bytes_per_s *= speed;
    hardware.practice.blocks_on_launches = waits;
    return price_units(plan, hardware).layers.front().total_s();
  };
  const double device_s = layer_s(0.0, 1.0, true);
  EXPECT_DOUBLE_EQ(device_s, layer_s(0.0, 1.0, false));
  const double launches = (layer_s(device_s, 1.0, true) - device_s) / device_s;
  EXPECT_GT(launches, 10.0);
  EXPECT_NEAR(launches, std::round(launches), 1e-9 * launches);
  for (const double share : {1e-4, 0.3, 7.0}) {
    const double launch_s = share * device_s;
    EXPECT_NEAR(layer_s(launch_s, 1.0, true), device_s + launches * launch_s, 1e-12 * launches);
    EXPECT_NEAR(layer_s(launch_s, 4.0, true), device_s / 4.0 + launches * launch_s,
                1e-12 * launches);
    EXPECT_GT(layer_s(launch_s, 1.0, true), layer_s(launch_s, 1.0, false));
  }
}

// A trainer that updates one tensor of every unit after the other needs the host for each kernel.
TEST(Price, AnUpdateTakesTheTimeOfItsLaunchesIfTheyTakeLonger) {
  const RunPlan plan = plan_of(some_run());
  Hardware hardware = some_hardware();
  const double kernels_s = predict_update(plan, plan.pipeline.front(), hardware);
  hardware.practice.update_launches = 12;
  EXPECT_DOUBLE_EQ(predict_update(plan, plan.pipeline.front(), hardware), kernels_s);
  for (const double launch_s : {1e-9, 1.0, 2.0}) {
    hardware.launch_s = launch_s;
    constexpr double kUnits = 5.0;  // three layers, embedding and head
    EXPECT_DOUBLE_EQ(predict_update(plan, plan.pipeline.front(), hardware),
                     std::max(kernels_s, kUnits * 12.0 * launch_s));
  }
}

// Attention computes whole tiles there and pays for its operations, as other kernels do.
TEST(Price, OwnKernelsArePricedInWholeTilesAndByTheirOperations) {
  const Hardware gpu = some_hardware();
  const Hardware own = with_own_kernels(gpu);
  const auto attention_s = [](int64_t tokens, const Hardware& hardware) {
    const AttentionWork work{.sequences = 1,
                             .heads = 2,
                             .kv_heads = 2,
                             .queries = tokens,
                             .keys = tokens,
                             .head_dim = 8};
    return price_fused_attention(work, 1.0, DType::BF16, hardware);
  };
  // Up to 64 keys are one tile, so each query costs the same.
  const double launch_s = own.launch_s;
  EXPECT_NEAR(64.0 * (attention_s(1, own) - launch_s), attention_s(64, own) - launch_s, 1e-15);
  EXPECT_LT(65.0 * (attention_s(1, own) - launch_s), attention_s(65, own) - launch_s);
  for (const int64_t tokens : {1, 64, 100, 1024}) {
    EXPECT_GT(attention_s(tokens, own), attention_s(tokens, gpu));
  }
  Hardware faster_products = own;
  faster_products.bf16_flops *= 30.0;
  EXPECT_LT(attention_s(100, faster_products), attention_s(100, own));
  Hardware faster_operations = own;
  faster_operations.vector_share *= 2.0;
  EXPECT_LT(attention_s(100, faster_operations), attention_s(100, own));

  const HalfWork half{.products = {}, .bytes = 1e6, .operations = 1e9, .calls = 1};
  EXPECT_EQ(price_vectors(half, gpu), price_memory(half.bytes, half.calls, gpu));
  double last_s = price_vectors(half, gpu);
  for (const double share : {1.0, 0.5, 0.1}) {
    Hardware slower = gpu;
    slower.vector_share = share;
    EXPECT_LT(last_s, price_vectors(half, slower));
    last_s = price_vectors(half, slower);
  }
}

// A query sees the keys of its document alone. Our own kernel computes whole tiles of them; it
// never costs more than attention over whole sequences.
TEST(Price, AttentionWithinDocumentsIsPricedByTheKeysThatAQuerySees) {
  const Hardware gpu = some_hardware();
  const Hardware own = with_own_kernels(gpu);
  const double whole = 0.5 * (1024.0 + 1.0);
  const auto attention_s = [](double document_keys, const Hardware& hardware) {
    const AttentionWork work{.sequences = 1,
                             .heads = 2,
                             .kv_heads = 2,
                             .queries = 1024,
                             .keys = 1024,
                             .head_dim = 512,
                             .document_keys = document_keys};
    return price_fused_attention(work, 1.0, DType::F32, hardware);
  };
  for (const Hardware& hardware : {gpu, own}) {
    EXPECT_EQ(attention_s(whole, hardware), attention_s(0.0, hardware));
    double shorter_s = 0.0;
    for (const double keys : {1.0, 20.0, 100.0, 300.0, whole}) {
      EXPECT_GT(attention_s(keys, hardware), shorter_s);
      shorter_s = attention_s(keys, hardware);
    }
  }
  // Products of such wide heads take longer than their operands' reads.
  EXPECT_NEAR(attention_s(whole / 2.0, gpu), attention_s(whole, gpu) / 2.0,
              1e-9 * attention_s(whole, gpu));
  // One key costs a tile.
  EXPECT_GT(attention_s(1.0, own), attention_s(whole, own) / 16.0);
}

// What a trainer moves for gradients, and what it computes again, is added to the price.
TEST(Price, PracticesOfTrainersAreAddedUp) {
  RunConfig config = some_run();
  config.model.family = ModelFamily::Gpt2;
  config.memory.recompute = Recompute::Full;
  const RunPlan plan = plan_of(config);
  const auto layer_of = [&](const TrainerPractice& practice) {
    Hardware hardware = some_hardware();
    hardware.practice = practice;
    return price_units(plan, hardware).layers.front();
  };
  TrainerPractice practice = practice_of_megatron_2021();
  const ComputeTimes adds_apart = layer_of(practice);
  practice.grad_copy_bytes = 0.0;
  const ComputeTimes whole = layer_of(practice);
  EXPECT_LT(whole.w_s, adds_apart.w_s);
  EXPECT_DOUBLE_EQ(whole.again_s, whole.f_s);
  practice.stops_recompute_early = true;
  const ComputeTimes early = layer_of(practice);
  EXPECT_LT(early.again_s, whole.again_s);
  EXPECT_GT(early.again_s, 0.5 * whole.again_s);
}

// Every row of the list equals the plan of that row's configuration.
// The update reads and writes gradients, state and parameters, so its price follows their dtypes.
TEST(Price, AnUpdateMovesTheBytesThatAreKeptOfAParameter) {
  const Hardware hardware = some_hardware();
  const auto price = [&](const OptimizerStateSpec& state, DType grad) {
    StageShape shape;
    shape.compute = DType::BF16;
    shape.grad = grad;
    shape.optimizer_state = state;
    return price_update(1e6, shape, hardware);
  };
  const double of_18 = price({}, DType::F32);
  const OptimizerStateSpec moments{.moment = DType::BF16};
  const OptimizerStateSpec no_master{.moment = DType::BF16, .master = false};
  const OptimizerStateSpec momentum{.exp_avg_sq = false, .moment = DType::BF16, .master = false};
  EXPECT_NEAR(price({}, DType::BF16) / of_18, 16.0 / 18.0, 1e-12);
  EXPECT_NEAR(price(moments, DType::BF16) / of_18, 12.0 / 18.0, 1e-12);
  EXPECT_NEAR(price(no_master, DType::BF16) / of_18, 8.0 / 18.0, 1e-12);
  EXPECT_NEAR(price(momentum, DType::BF16) / of_18, 6.0 / 18.0, 1e-12);
}

TEST(Alternatives, AreThePlansOfTheirOwnConfigurations) {
  const RunConfig config = some_run();
  const auto ways = alternatives(config, {}, some_hardware());
  ASSERT_TRUE(ways.ok()) << ways.error().message;
  EXPECT_EQ(ways->size(), 12u);  // 3 recomputations x micro-batches of 1, 2, 4 and 8
  int num_configured = 0;
  for (const Alternative& way : *ways) {
    RunConfig own = config;
    own.memory.recompute = way.recompute;
    own.batch.micro_sequences = way.micro_sequences;
    const RunPlan plan = plan_of(own);
    EXPECT_EQ(way.arena_bytes, plan.arena_bytes());
    EXPECT_EQ(way.step_s, predicted_step_s(plan, some_hardware()));
    EXPECT_EQ(way.refusal, "");
    num_configured += way.is_configured;
  }
  EXPECT_EQ(num_configured, 1);
  EXPECT_TRUE(std::is_sorted(
      ways->begin(), ways->end(),
      [](const Alternative& a, const Alternative& b) { return a.step_s < b.step_s; }));
}

// For every limit, of the host or of a rank, a row is refused exactly if its own plan is refused:
// with one byte less than it needs.
TEST(Alternatives, AreRefusedWhereTheirPlansAre) {
  for (const int dp : {1, 2}) {
    RunConfig config = some_run();
    config.parallel.dp = dp;
    const auto bounds = alternatives(config, {}, some_hardware());
    ASSERT_TRUE(bounds.ok()) << bounds.error().message;
    for (const bool limits_ranks : {false, true}) {
      const int64_t limited_ranks = limits_ranks ? 1 : dp;  // all of them allocate as much
      std::vector<Alternative> all;
      for (const Alternative& bound : *bounds) {
        HostFacts host;
        RunConfig limited = config;
        (limits_ranks ? limited.memory.limit_bytes : host.memory_bytes) =
            limited_ranks * bound.arena_bytes;
        const auto ways = alternatives(limited, host, some_hardware());
        bool refused_before = false;
        for (const Alternative& way : *ways) {
          EXPECT_EQ(way.refusal.empty(), way.arena_bytes <= bound.arena_bytes);
          EXPECT_TRUE(!refused_before || !way.refusal.empty()) << "what can run comes first";
          refused_before = !way.refusal.empty();
        }
        all = *ways;
      }
      for (const Alternative& way : all) {
        for (const int64_t missing : {0, 1}) {
          HostFacts host;
          RunConfig own = config;
          own.memory.recompute = way.recompute;
          own.batch.micro_sequences = way.micro_sequences;
          (limits_ranks ? own.memory.limit_bytes : host.memory_bytes) =
              limited_ranks * way.arena_bytes - missing;
          EXPECT_EQ(make_plan(own, host).ok(), missing == 0);
        }
      }
    }
  }
}

Hardware some_processor() {
  Hardware hardware = some_hardware();
  hardware.matmul_bytes_per_s = 5e9;
  hardware.launch_s = 1e-6;
  return hardware;
}

// Its threads launch, move and compute one after the other; a device does it at the same time.
TEST(Price, AProcessorPaysForLaunchesBytesAndFlopsTogether) {
  const Product product{64, 256, 128};
  const Hardware processor = some_processor();
  Hardware fast_memory = processor;
  fast_memory.matmul_bytes_per_s = 1e30;
  const double flops_s = price_product(product, DType::BF16, fast_memory) - processor.launch_s;
  const double bytes = 2.0 * product.elements();
  EXPECT_DOUBLE_EQ(price_product(product, DType::BF16, processor),
                   processor.launch_s + flops_s + bytes / processor.matmul_bytes_per_s);
  Hardware device = processor;
  device.matmul_bytes_per_s = 0.0;
  EXPECT_LT(price_product(product, DType::BF16, device), flops_s + processor.launch_s);
  EXPECT_DOUBLE_EQ(price_memory(1e6, 3, processor), 3e-6 + 1e6 / processor.memory_bytes_per_s);
}

TEST(Price, AGradientInFp32MovesMoreBytesThanOneInBf16) {
  Product product{256, 128, 64, 1, 4};
  const double in_fp32_s = price_product(product, DType::BF16, some_processor());
  product.result_bytes = 2;
  EXPECT_DOUBLE_EQ(in_fp32_s - price_product(product, DType::BF16, some_processor()),
                   2.0 * 256 * 128 / some_processor().matmul_bytes_per_s);
}

// In one tree of sums a rank with m micro-batches adds m - 1 times.
TEST(Price, EveryFurtherMicroBatchAddsItsGradients) {
  const auto step_s = [](int64_t micro_sequences, bool sums_take_time) {
    RunConfig config = some_run();
    config.run.reproducible = Reproducible::Layout;
    config.batch.micro_sequences = micro_sequences;
    Hardware hardware = some_hardware();
    hardware.memory_bytes_per_s = sums_take_time ? 1e6 : 1e20;
    const RunPlan plan = plan_of(config);
    const double update_s = price_update(double(plan.num_params), plan.shape, hardware);
    const double kernels_s =
        double(plan.num_microbatches) *
        price_units(plan.model, plan.shape, hardware).of(whole_model(plan.model)).total_s();
    return predicted_step_s(plan, hardware) - update_s - kernels_s;
  };
  const RunPlan plan = plan_of(some_run());
  const double sum_s = 3.0 * 4.0 * double(plan.num_params) / 1e6;
  for (const int64_t micro : {1, 2, 4, 8}) {
    EXPECT_NEAR(step_s(micro, true) / sum_s, 8.0 / double(micro) - 1.0, 1e-6) << micro;
    EXPECT_NEAR(step_s(micro, false), 0.0, 1e-6);
  }
}

}  // namespace
}  // namespace trireme
