#include "comm/reduce.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace trireme {
namespace {

template <typename T>
std::vector<T> numbers(int64_t count, int seed) {
  std::vector<T> x(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) x[size_t(i)] = T(float((i * 37 + seed * 11) % 101 - 50));
  return x;
}

template <typename T>
void expect_same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  EXPECT_EQ(0, std::memcmp(a.data(), b.data(), a.size() * sizeof(T)));
}

// The tree over two sources is their pair, and with Mean half of it. It is the same whether one
// result is written or both, apart or in place, whatever the length.
template <typename T>
void check_two_sources(DType dtype) {
  for (const int64_t count : {1, 31, 511, 512, 513, 3000}) {
    for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Mean, ReduceOp::Max, ReduceOp::Min}) {
      const std::vector<T> left = numbers<T>(count, 1), right = numbers<T>(count, 2);
      std::vector<T> expected(left.size());
      reduce_pair(dtype, op, expected.data(), left.data(), right.data(), count);
      if (op == ReduceOp::Mean) divide(dtype, expected.data(), count, 2);

      std::vector<T> first(left.size()), second(left.size());
      const void* const sources[] = {left.data(), right.data()};
      void* const apart[] = {first.data(), second.data()};
      reduce_tree(dtype, op, apart, sources, count);
      expect_same_bits(first, expected);
      expect_same_bits(second, expected);

      std::vector<T> alone(left.size());
      void* const one[] = {alone.data()};
      reduce_tree(dtype, op, one, sources, count);
      expect_same_bits(alone, expected);

      for (const bool crosses : {false, true}) {
        std::vector<T> x = left, y = right;
        const void* const in[] = {x.data(), y.data()};
        void* const straight[] = {x.data(), y.data()};
        void* const crossed[] = {y.data(), x.data()};
        reduce_tree(dtype, op, crosses ? crossed : straight, in, count);
        expect_same_bits(x, expected);
        expect_same_bits(y, expected);
      }
    }
  }
}

TEST(Reduce, TheTreeOverTwoSourcesIsTheirPairInEveryPlace) {
  check_two_sources<float>(DType::F32);
  check_two_sources<bf16>(DType::BF16);
  check_two_sources<f16>(DType::F16);
  check_two_sources<int32_t>(DType::I32);
  check_two_sources<int64_t>(DType::I64);
}

// Returns what one tree of two sources holds, by the conversions of one number.
f16 reduced(ReduceOp op, f16 left, f16 right) {
  const float a = float(left), b = float(right);
  switch (op) {
    case ReduceOp::Sum:
      return f16(a + b);
    case ReduceOp::Mean:
      return f16(float(f16(a + b)) / 2.0f);
    case ReduceOp::Max:
      return f16(a > b || a != a ? a : b);
    case ReduceOp::Min:
      return f16(a < b || a != a ? a : b);
  }
  return f16(0.0f);
}

bool is_nan(f16 x) { return float(x) != float(x); }

// Many fp16 are converted at once, and those at the end one by one. Both ways round alike,
// infinities, subnormal numbers and NaNs included.
TEST(Reduce, EveryFp16RoundsAsItDoesAlone) {
  constexpr int64_t kCount = 65536 + 7;
  std::vector<f16> left(kCount), right(kCount), third = numbers<f16>(kCount, 3), sums(kCount);
  for (uint32_t turn = 0; turn < 9; ++turn) {
    for (uint32_t i = 0; i < kCount; ++i) {
      left[i].bits = uint16_t(i);
      right[i].bits = uint16_t((i * 2654435761u >> 7) ^ (turn * 40503u));
      // Which of two NaNs is kept is the processor's choice.
      if (is_nan(left[i]) && is_nan(right[i])) right[i] = f16(1.0f);
    }
    std::vector<f16> expected(kCount);
    const void* const sources[] = {left.data(), right.data(), third.data()};
    void* const target[] = {sums.data()};
    for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Mean, ReduceOp::Max, ReduceOp::Min}) {
      for (size_t i = 0; i < left.size(); ++i) expected[i] = reduced(op, left[i], right[i]);
      reduce_tree(DType::F16, op, target, {sources, 2}, kCount);
      expect_same_bits(sums, expected);
    }
    for (size_t i = 0; i < left.size(); ++i) {
      expected[i] = reduced(ReduceOp::Sum, reduced(ReduceOp::Sum, left[i], right[i]), third[i]);
    }
    reduce_tree(DType::F16, ReduceOp::Sum, target, sources, kCount);
    expect_same_bits(sums, expected);
  }
}

}  // namespace
}  // namespace trireme
