#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"
#include "kernels/own_stream.h"
#include "kernels/random_matrix.h"

// Laws that the tests of all families check. `Operands` is a copyable, comparable set of inputs and
// outputs; run(kernels, stream, operands) calls one kernel on it.
namespace trireme {

struct Teams {
  OwnStream of_1{1}, of_2{2}, of_4{4};
};

// Runs from the same start on every instruction set, with teams of 1, 2 and 4 threads. All must
// leave the same bits (these families promise it). Returns the result.
template <typename Operands, typename Run>
Operands same_bits_everywhere(Teams& teams, const Operands& start, Run run) {
  std::optional<Operands> first;
  for (Isa isa : supported_isas()) {
    int num_threads = 1;
    for (OwnStream* stream : {&teams.of_1, &teams.of_2, &teams.of_4}) {
      Operands operands = start;
      run(cpu_kernels(isa), *stream, operands);
      if (!first) first = operands;
      EXPECT_TRUE(operands == *first) << name_of(isa) << " with " << num_threads << " threads";
      num_threads *= 2;
    }
  }
  return *first;
}

template <typename Operands, typename Run>
Operands by_reference(Teams& teams, const Operands& start, Run run) {
  Operands operands = start;
  run(reference_kernels(), teams.of_1, operands);
  return operands;
}

// fp32 must be within `tolerance` of the larger of 1 and |want|. bf16 and fp16 may differ by one
// more unit in the last place, because a number near the middle of two may be rounded to either.
inline void expect_near(RandomMatrix got, RandomMatrix want, double tolerance, const char* what) {
  const MatrixRef extents = want;
  const double unit = extents.dtype == DType::BF16  ? 1.0 / 128.0
                      : extents.dtype == DType::F16 ? 1.0 / 1024.0
                                                    : 0.0;
  double worst = 0.0;
  for (int64_t row = 0; row < extents.rows; ++row) {
    for (int64_t col = 0; col < extents.cols; ++col) {
      const double value = want.get(row, col);
      const double allowed = tolerance * std::max(1.0, std::abs(value)) + unit * std::abs(value);
      const double difference = std::abs(got.get(row, col) - value);
      worst = std::max(worst, std::isnan(difference) ? INFINITY : difference / allowed);
    }
  }
  EXPECT_LE(worst, 1.0) << what << ": worst difference over what is allowed";
}

// Returns the sum of the products of two matrices, in double.
inline double inner_product(RandomMatrix a, RandomMatrix b) {
  const MatrixRef extents = a;
  double sum = 0.0;
  for (int64_t row = 0; row < extents.rows; ++row) {
    for (int64_t col = 0; col < extents.cols; ++col) {
      sum += double(a.get(row, col)) * double(b.get(row, col));
    }
  }
  return sum;
}

// Returns x + step * direction, in fp32.
inline RandomMatrix moved(const RandomMatrix& x, RandomMatrix direction, double step) {
  RandomMatrix result = x;
  const MatrixRef extents = direction;
  for (int64_t row = 0; row < extents.rows; ++row) {
    for (int64_t col = 0; col < extents.cols; ++col) {
      result.set(row, col, float(x.get(row, col) + step * direction.get(row, col)));
    }
  }
  return result;
}

// Returns the derivative of loss(step) at 0 by central differences with one extrapolation.
template <typename Loss>
double derivative(Loss loss) {
  const auto central = [&](double h) { return (loss(h) - loss(-h)) / (2.0 * h); };
  return (4.0 * central(0.02) - central(0.04)) / 3.0;
}

}  // namespace trireme
