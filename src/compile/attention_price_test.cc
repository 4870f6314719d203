#include <gtest/gtest.h>

#include "compile/kernel_price.h"

namespace trireme {
namespace {

Hardware device_of(int multiprocessors) {
  Hardware hardware;
  hardware.fp32_flops = 1e11;
  hardware.bf16_flops = 2e11;
  hardware.memory_bytes_per_s = 1e10;
  hardware.multiprocessors = multiprocessors;
  return hardware;
}

AttentionWork attention_over(int64_t keys, int64_t kv_heads = 4) {
  return {.sequences = 2,
          .heads = 4,
          .kv_heads = kv_heads,
          .queries = keys,
          .keys = keys,
          .head_dim = 64};
}

// Forward and backward have a share of the peak each; without one of its own, the backward pass has
// that of the forward pass. A trainer's kernel has its own shares.
TEST(AttentionPrice, EachPassOfAttentionHasItsShareOfThePeak) {
  const AttentionWork work = attention_over(512);
  const auto seconds = [&](const Hardware& hardware, double factor) {
    return price_fused_attention(work, factor, DType::BF16, hardware);
  };
  Hardware hardware = device_of(0);
  hardware.attention_share = 0.5;
  EXPECT_DOUBLE_EQ(seconds(hardware, 2.5), 2.5 * seconds(hardware, 1.0));
  Hardware slower = hardware;
  slower.attention_backward_share = 0.2;
  EXPECT_DOUBLE_EQ(seconds(slower, 1.0), seconds(hardware, 1.0));
  EXPECT_DOUBLE_EQ(seconds(slower, 2.5), 2.5 * seconds(hardware, 2.5));
  slower.practice.attention_share = 0.25;
  EXPECT_DOUBLE_EQ(seconds(slower, 1.0), 2.0 * seconds(hardware, 1.0));
  EXPECT_DOUBLE_EQ(seconds(slower, 2.5), 2.0 * seconds(hardware, 2.5));
  slower.practice.attention_backward_share = 0.1;
  EXPECT_DOUBLE_EQ(seconds(slower, 2.5), 5.0 * seconds(hardware, 2.5));
}

// On a GPU every query takes the time of a fixed number of keys more than it meets, in the backward
// pass of more than in the forward pass, so its speed rises with the length to the share.
TEST(AttentionPrice, ShortSequencesLowerTheSpeedOfAttentionOnGpus) {
  const Hardware hardware = device_of(0);
  const Hardware gpu = device_of(108);
  double more_before = 0.0;
  for (const double factor : {1.0, kBackwardAttention}) {
    double last_share = 0.0;
    double more_keys = 0.0;
    for (const int64_t keys : {256, 1024, 4096, 65536}) {
      const AttentionWork work = attention_over(keys);
      const double smooth_s = price_fused_attention(work, factor, DType::BF16, hardware);
      const double share = smooth_s / price_fused_attention(work, factor, DType::BF16, gpu);
      EXPECT_GT(share, last_share);
      EXPECT_LT(share, 1.0);
      last_share = share;
      const double more = work.seen_keys() * (1.0 / share - 1.0);
      EXPECT_NEAR(more, more_keys > 0.0 ? more_keys : more, 1e-6 * more);
      more_keys = more;
    }
    EXPECT_GT(last_share, 0.99);
    EXPECT_GT(more_keys, more_before);
    more_before = more_keys;
  }
}

// What was measured for FlashAttention-2 and cuDNN on an H100 with heads of 128 (arXiv:2407.08608,
// figures 5 and 6): TFLOP/s with a mask forward, and without one backward.
TEST(AttentionPrice, SpeedsOfAttentionOverShorterSequencesFollowThePublishedOnes) {
  struct Measured {
    int64_t keys;
    double flash_forward, cudnn_forward, flash_backward, cudnn_backward;
  };
  constexpr Measured kMeasured[] = {{1024, 260, 410, 260, 408},
                                    {2048, 298, 484, 291, 465},
                                    {4096, 319, 518, 310, 499},
                                    {8192, 333, 529, 318, 518},
                                    {16384, 335, 539, 322, 516}};
  const Hardware gpu = device_of(132);
  // TFLOP/s over so many keys a query / over long sequences.
  const auto speed = [&](double seen, double factor) {
    AttentionWork work = attention_over(1 << 20);
    work.document_keys = seen;
    const double flops = factor * work.forward_flops();
    const double peak = gpu.peak_flops(DType::BF16) * gpu.attention_share;
    return flops / peak / price_fused_attention(work, factor, DType::BF16, gpu);
  };
  const Measured& longest = kMeasured[4];
  for (const Measured& row : kMeasured) {
    const double keys = double(row.keys), bound = row.keys < 2048 ? 0.08 : 0.03;
    const double forward = speed(keys / 2.0, 1.0) / speed(double(longest.keys) / 2.0, 1.0);
    const double backward = speed(keys, kBackwardAttention) / speed(16384.0, kBackwardAttention);
    EXPECT_NEAR(row.flash_forward / longest.flash_forward, forward, bound) << row.keys;
    EXPECT_NEAR(row.cudnn_forward / longest.cudnn_forward, forward, bound) << row.keys;
    EXPECT_NEAR(row.flash_backward / longest.flash_backward, backward, bound) << row.keys;
    EXPECT_NEAR(row.cudnn_backward / longest.cudnn_backward, backward, bound) << row.keys;
  }
}

// A copy of keys and values for every head reads those that there are and writes one for each.
TEST(AttentionPrice, RepeatedKeysAreReadOnceAndWrittenForEveryHead) {
  EXPECT_EQ(attention_over(128, 4).copied_keys(), 0.0);
  for (const int64_t kv_heads : {1, 2}) {
    const double read = 2.0 * 128.0 * double(kv_heads) * 2.0 * 64.0;
    const double written = 2.0 * 128.0 * 4.0 * 2.0 * 64.0;
    EXPECT_DOUBLE_EQ(2.0 * attention_over(128, kv_heads).copied_keys(), read + written);
  }
}

}  // namespace
}  // namespace trireme
