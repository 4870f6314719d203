#include "predict/fit_operators.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "collectives/comm_cost.h"
#include "compile/kernel_price.h"
#include "compile/link_cost.h"

namespace trireme {
namespace {

Hardware known_machine() {
  Hardware hardware;
  hardware.fp32_flops = 2e11;
  hardware.bf16_flops = 4e11;
  hardware.fp16_flops = 2e11;
  hardware.memory_bytes_per_s = 5e10;
  hardware.reduce_bytes_per_s = 1e10;
  hardware.matmul_share = 0.87;
  hardware.attention_share = 0.55;
  hardware.memory_share = 0.8;
  hardware.launch_s = 4e-6;
  hardware.set_nodes(0, {1.2e-5, 7e9});
  return hardware;
}

// Returns the device as it is before anything is fitted.
Hardware unfitted(const Hardware& known) {
  Hardware hardware;
  hardware.fp32_flops = known.fp32_flops;
  hardware.bf16_flops = known.bf16_flops;
  hardware.fp16_flops = known.fp16_flops;
  hardware.memory_bytes_per_s = known.memory_bytes_per_s;
  hardware.reduce_bytes_per_s = known.reduce_bytes_per_s;
  hardware.set_nodes(0, {5e-6, 2e9});
  return hardware;
}

// Measures as a machine would whose prices are exact. `factor` disturbs each measurement.
template <typename Factor>
MeasuredOperators measure(const Hardware& known, Factor&& factor) {
  MeasuredOperators measured;
  for (const DType dtype : {DType::F32, DType::BF16}) {
    for (const Product& product :
         {Product{256, 768, 768}, Product{1024, 3072, 768}, Product{768, 128, 512},
          Product{768, 512, 128}, Product{2048, 384, 1536}, Product{16, 16, 16}}) {
      measured.products.push_back(
          {product, dtype, factor() * price_product(product, dtype, known)});
    }
    for (const int64_t queries : {64, 256, 1024}) {
      const AttentionWork work{1, 12, 12, queries, queries, 64};
      for (const bool is_backward : {false, true}) {
        const double flops = is_backward ? kBackwardAttention : 1.0;
        const double seconds = price_fused_attention(work, flops, dtype, known);
        measured.attentions.push_back({work, is_backward, dtype, factor() * seconds});
      }
    }
  }
  for (const double bytes : {256.0, 4096.0, 4e6, 6.4e7}) {
    measured.kernels.push_back({bytes, factor() * price_memory(bytes, 1, known)});
  }
  for (const double bytes : {4096.0, 65536.0, 1e6, 8e6}) {
    const double seconds = transfer_s(group_link(known, {2, 1}), bytes);
    measured.collectives.push_back({2, bytes, factor() * seconds});
  }
  for (const int64_t count : {64, 1 << 14, 1 << 18}) {
    const PlanRequest request{.algorithm = Algorithm::Ring, .size = 2, .count = count};
    const double seconds = predict_seconds(request, 4, comm_cost_of(known));
    measured.messages.push_back({request, 4, factor() * seconds});
  }
  const HalfWork half{.products = {}, .bytes = 1e5, .operations = 1e7, .calls = 1};
  measured.vectors.push_back({half.bytes, half.operations, factor() * price_vectors(half, known)});
  return measured;
}

void expect_numbers(const Hardware& fitted, const Hardware& known, double tolerance) {
  const auto near = [&](double a, double b) { EXPECT_NEAR(a / b, 1.0, tolerance); };
  near(fitted.memory_share, known.memory_share);
  near(fitted.launch_s, known.launch_s);
  near(fitted.matmul_share, known.matmul_share);
  near(fitted.attention_share, known.attention_share);
  near(fitted.tiers.front().link.latency_s, known.tiers.front().link.latency_s);
  near(fitted.tiers.front().link.bytes_per_s, known.tiers.front().link.bytes_per_s);
}

TEST(FitOperators, MeasurementsMadeFromNumbersGiveTheseNumbersBack) {
  const Hardware known = known_machine();
  const MeasuredOperators measured = measure(known, [] { return 1.0; });
  const Hardware fitted = fit_operators(unfitted(known), measured);
  expect_numbers(fitted, known, 0.01);
  for (const auto& [name, errors] : errors_of(measured, fitted))
    EXPECT_LT(errors.most, 0.01) << name;
}

// On a processor a product also takes the time of its bytes, and other kernels that of their
// operations.
TEST(FitOperators, TheNumbersOfAProcessorComeBackToo) {
  Hardware known = known_machine();
  known.launch_s = 4e-8;
  known.matmul_bytes_per_s = 2e10;
  known.vector_share = 1.3;
  Hardware start = unfitted(known);
  start.matmul_bytes_per_s = start.memory_bytes_per_s;
  start.vector_share = 0.5;
  const MeasuredOperators measured = measure(known, [] { return 1.0; });
  const Hardware fitted = fit_operators(start, measured);
  EXPECT_NEAR(fitted.vector_share / known.vector_share, 1.0, 0.01);
  for (const auto& [name, errors] : errors_of(measured, fitted))
    EXPECT_LT(errors.most, 0.02) << name;
}

// Others who took the cores during a tenth of the measurements hardly move the numbers.
TEST(FitOperators, AWildMeasurementCountsLittle) {
  const Hardware known = known_machine();
  int row = 0;
  const MeasuredOperators measured = measure(known, [&] { return ++row % 10 == 0 ? 3.0 : 1.0; });
  expect_numbers(fit_operators(unfitted(known), measured), known, 0.15);
}

TEST(FitOperators, WhatNobodyMeasuredStays) {
  const Hardware start = unfitted(known_machine());
  EXPECT_EQ(to_toml(fit_operators(start, {})), to_toml(start));
}

// However wild the measurements are, the fitted prices can be used, and more work is never cheaper.
TEST(FitOperators, PricesRiseWithFlopsAndBytes) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> exponent(-1.0, 1.0);
  for (int draw = 0; draw < 4; ++draw) {
    const Hardware known = known_machine();
    const Hardware fitted =
        fit_operators(unfitted(known), measure(known, [&] { return std::exp(exponent(random)); }));
    EXPECT_TRUE(validate(fitted).empty());
    for (int64_t size = 1; size < 5000; size *= 3) {
      const auto product_s = [&](int64_t m, int64_t n, int64_t k) {
        return price_product({m, n, k}, DType::BF16, fitted);
      };
      EXPECT_GE(product_s(3 * size, 64, 64), product_s(size, 64, 64));
      EXPECT_GE(product_s(64, 3 * size, 64), product_s(64, size, 64));
      EXPECT_GE(product_s(64, 64, 3 * size), product_s(64, 64, size));
      EXPECT_GE(price_memory(3e3 * double(size), 1, fitted),
                price_memory(1e3 * double(size), 1, fitted));
      EXPECT_GE(transfer_s(group_link(fitted, {2, 1}), 3e3 * double(size)),
                transfer_s(group_link(fitted, {2, 1}), 1e3 * double(size)));
    }
  }
}

}  // namespace
}  // namespace trireme
