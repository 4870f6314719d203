#include "optim/qk_clip.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "comm/world.h"
#include "device/isa.h"
#include "kernels/own_stream.h"

namespace trireme {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

ModelSpec model_of(int64_t heads, int64_t kv_heads, int64_t head_dim, int64_t shared = 0) {
  ModelSpec model;
  model.qk_rope_head_dim = shared;
  model.heads = heads;
  model.kv_heads = kv_heads;
  model.head_dim = head_dim;
  return model;
}

// The logits of a head are multiplied by the product of both factors.
TEST(QkClip, ScalesTheLogitsOfAHeadToTheLimitAndNoOthers) {
  const std::vector<float> largest = {3.0f, 12.0f, -5.0f, 10.0f, 40.0f, 0.0f, -kInfinity, 10.1f};
  for (int64_t kv_heads : {8, 4, 2, 1}) {
    const QkClip clip(10.0, model_of(8, kv_heads, 4));
    const int64_t group = 8 / kv_heads;
    for (int64_t head = 0; head < 8; ++head) {
      const float query = clip.factor(LogitSide::Query, head, largest);
      const float key = clip.factor(LogitSide::Key, head / group, largest);
      const float want = std::min(1.0f, 10.0f / std::max(1e-3f, largest[size_t(head)]));
      EXPECT_NEAR(query * key, want, 1e-6) << head << " of " << kv_heads << " kv heads";
      EXPECT_LE(key, 1.0f);
      if (group > 1) continue;
      EXPECT_NEAR(query, key, 1e-6);  // as in the paper
    }
  }
}

TEST(QkClip, LogitsThatAreNotFiniteScaleNothing) {
  const QkClip clip(10.0, model_of(2, 1, 4));
  const std::vector<float> largest = {kInfinity, std::numeric_limits<float>::quiet_NaN()};
  for (int64_t head : {0, 1}) EXPECT_EQ(clip.factor(LogitSide::Query, head, largest), 1.0f);
  EXPECT_EQ(clip.factor(LogitSide::Key, 0, largest), 1.0f);
}

// Whatever part of a weight or a bias a rank holds, every element gets the factor of its head. The
// last rows of a head of the queries may meet a part of the keys that all heads share.
class QkClipOfParts : public testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(SharedWidths, QkClipOfParts, testing::Values(0, 2));

TEST_P(QkClipOfParts, HaveTheBitsOfTheWhole) {
  constexpr int64_t kHeads = 4, kWidth = 3;
  const int64_t shared = GetParam();
  const int64_t kv_heads = shared > 0 ? kHeads : 2;
  const QkClip clip(1.0, model_of(kHeads, kv_heads, kWidth, shared));
  const std::vector<float> largest = {0.5f, 7.0f, 3.0f, 1.0f};
  OwnStream stream(1);
  run_ranks(1, [&](World& world) {
    Ctx ctx{stream,        cpu_kernels(supported_isas().back()),
            world.group(), world.group(),
            world.group(), world.group()};
    for (DType dtype : {DType::F32, DType::BF16}) {
      for (LogitSide side : {LogitSide::Query, LogitSide::Key}) {
        const int64_t width = kWidth + (side == LogitSide::Query ? shared : 0);
        const int64_t rows = (side == LogitSide::Query ? kHeads : kv_heads) * width;
        for (int64_t cols : {1, 5}) {
          std::vector<float> values(size_t(rows * cols));
          std::mt19937 random(5);
          for (float& value : values) value = std::normal_distribution<float>()(random);
          const auto scaled = [&](int64_t begin, int64_t end) {
            std::vector<float> part(values.begin() + begin, values.begin() + end);
            std::vector<bf16> narrow(part.begin(), part.end());
            void* data = dtype == DType::F32 ? static_cast<void*>(part.data()) : narrow.data();
            clip.scale(ctx,
                       {.side = side,
                        .box = {0, cols, cols},
                        .first = begin,
                        .master_N = {data, dtype, Shape{end - begin}},
                        .key = {9},
                        .update = 3},
                       largest);
            return dtype == DType::F32 ? part : std::vector<float>(narrow.begin(), narrow.end());
          };
          const std::vector<float> whole = scaled(0, rows * cols);
          for (int64_t border = 0; border <= rows * cols; ++border) {
            std::vector<float> parts = scaled(0, border);
            const std::vector<float> rest = scaled(border, rows * cols);
            parts.insert(parts.end(), rest.begin(), rest.end());
            ASSERT_EQ(parts, whole) << border;
          }
          for (int64_t e = 0; e < rows * cols && dtype == DType::F32; ++e) {
            const int64_t head = e / cols / width;
            const bool is_shared = e / cols % width >= kWidth;
            const float factor = is_shared ? std::min(1.0f, 1.0f / largest[size_t(head)])
                                           : clip.factor(side, head, largest);
            ASSERT_EQ(whole[size_t(e)], values[size_t(e)] * factor);
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace trireme
