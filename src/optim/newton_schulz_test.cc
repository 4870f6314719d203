#include "optim/newton_schulz.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "comm/world.h"
#include "device/isa.h"
#include "kernels/own_stream.h"
#include "schema/newton_schulz.h"

namespace trireme {
namespace {

using Columns = std::vector<std::vector<double>>;  // [column][row]

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Returns `count` orthonormal columns of `rows` numbers (Gram-Schmidt, twice).
Columns orthonormal(int64_t rows, int64_t count, std::mt19937& random) {
  std::normal_distribution<double> normal;
  Columns columns;
  for (int64_t c = 0; c < count; ++c) {
    std::vector<double> column(static_cast<size_t>(rows));
    for (double& value : column) value = normal(random);
    for (int pass = 0; pass < 2; ++pass) {
      for (const std::vector<double>& before : columns) {
        const double along = dot(column, before);
        for (size_t i = 0; i < column.size(); ++i) column[i] -= along * before[i];
      }
    }
    const double norm = std::sqrt(dot(column, column));
    for (double& value : column) value /= norm;
    columns.push_back(std::move(column));
  }
  return columns;
}

// Returns what the iterations make of one singular value.
double iterated(double s) {
  for (int i = 0; i < NewtonSchulz::kIterations; ++i) {
    s = NewtonSchulz::kA * s + NewtonSchulz::kB * std::pow(s, 3) +
        NewtonSchulz::kC * std::pow(s, 5);
  }
  return s;
}

struct Decomposed {
  Columns u, v;
  std::vector<double> singular;
  double norm = 0.0;

  Decomposed(int64_t rows, int64_t cols, uint32_t seed) {
    std::mt19937 random(seed);
    const int64_t side = std::min(rows, cols);
    u = orthonormal(rows, side, random);
    v = orthonormal(cols, side, random);
    // Singular values from 1 down to 1/30 in equal ratios. Each is at least 1/200 of the norm.
    for (int64_t i = 0; i < side; ++i) {
      singular.push_back(std::pow(30.0, -double(i) / double(std::max<int64_t>(side - 1, 1))));
    }
    norm = std::sqrt(dot(singular, singular));
  }
  double at(int64_t row, int64_t col) const {
    double sum = 0.0;
    for (size_t i = 0; i < singular.size(); ++i) {
      sum += u[i][size_t(row)] * singular[i] * v[i][size_t(col)];
    }
    return sum;
  }
};

struct Orthogonalized {
  std::vector<float> values;  // [rows, cols]
};

Orthogonalized orthogonalized(const Decomposed& matrix, int64_t rows, int64_t cols, DType compute,
                              const KernelTable& kernels, Stream& stream) {
  const WholeMatrix whole{rows, cols, {}};
  std::vector<std::byte> memory(size_t(newton_schulz_memory(whole, compute).bytes) + 64);
  const size_t skip = 64 - reinterpret_cast<uintptr_t>(memory.data()) % 64;
  const NewtonSchulzTensors tensors(whole, compute, memory.data() + skip);
  const bool is_bf16 = compute == DType::BF16;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      const float value = float(7.0 * matrix.at(r, c));  // the norm removes every factor
      if (is_bf16) tensors.x.row<bf16>(r)[c] = bf16(value);
      if (!is_bf16) tensors.x.row<float>(r)[c] = value;
    }
  }
  MatrixRef result;
  run_ranks(1, [&](World& world) {
    Ctx ctx{stream, kernels, world.group(), world.group(), world.group(), world.group()};
    result = orthogonalize(ctx, tensors);
  });
  Orthogonalized out;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      out.values.push_back(is_bf16 ? float(result.row<bf16>(r)[c]) : result.row<float>(r)[c]);
    }
  }
  return out;
}

struct MatrixShape {
  int64_t rows, cols;
};
constexpr MatrixShape kShapes[] = {{1, 1}, {1, 9}, {9, 1}, {8, 8}, {33, 64}, {64, 33}, {96, 160}};

// The singular vectors stay, and the polynomial is applied to every singular value.
void expect_the_svd_law(DType compute, double tolerance) {
  OwnStream stream(2);
  for (const auto& [rows, cols] : kShapes) {
    const Decomposed matrix(rows, cols, 5);
    for (const Isa isa : supported_isas()) {
      const Orthogonalized got =
          orthogonalized(matrix, rows, cols, compute, cpu_kernels(isa), stream);
      for (size_t i = 0; i < matrix.singular.size(); ++i) {
        std::vector<double> of_v(size_t(rows), 0.0);  // result v_i
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t c = 0; c < cols; ++c) {
            of_v[size_t(r)] += got.values[size_t(r * cols + c)] * matrix.v[i][size_t(c)];
          }
        }
        for (size_t j = 0; j < matrix.singular.size(); ++j) {
          const double value = dot(of_v, matrix.u[j]);
          const double expected = i == j ? iterated(matrix.singular[i] / matrix.norm) : 0.0;
          EXPECT_NEAR(value, expected, tolerance) << rows << "x" << cols << " " << i << " " << j;
          if (i != j) continue;
          EXPECT_GT(value, 0.68 - tolerance);
          EXPECT_LT(value, 1.14 + tolerance);
        }
      }
    }
  }
}

TEST(NewtonSchulz, SingularVectorsStayAndSingularValuesComeNear1) {
  expect_the_svd_law(DType::F32, 2e-4);
}

TEST(NewtonSchulz, InBf16TheLawHoldsWithinItsRounding) { expect_the_svd_law(DType::BF16, 0.06); }

TEST(NewtonSchulz, ThreadsChangeNoBit) {
  OwnStream of_1(1), of_3(3);
  const Decomposed matrix(96, 160, 6);
  const KernelTable& kernels = cpu_kernels(supported_isas().back());
  for (const DType compute : {DType::F32, DType::BF16}) {
    EXPECT_EQ(orthogonalized(matrix, 96, 160, compute, kernels, of_1).values,
              orthogonalized(matrix, 96, 160, compute, kernels, of_3).values);
  }
}

}  // namespace
}  // namespace trireme
