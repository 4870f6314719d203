#include "kernels/elementwise/elementwise.h"

#include "kernels/elementwise/elementwise_cases.h"
#include "kernels/kernel_laws.h"

namespace trireme {
namespace {

struct Operands {
  Operands(DType x_dtype, DType out_dtype, int64_t n)
      : x(x_dtype, 1, n, 0, 1), y(x_dtype, 1, n, 0, 2), out(out_dtype, 1, n, 0, 3) {}
  bool operator==(const Operands&) const = default;

  RandomMatrix x, y, out;
};

template <typename Run>
void expect_agreement(Teams& teams, const Operands& start, double tolerance, Run run) {
  const Operands got = same_bits_everywhere(teams, start, run);
  expect_near(got.out, by_reference(teams, start, run).out, tolerance, "out");
}

TEST(Elementwise, ConvertAddAndSumAgreeWithTheReferenceEverywhere) {
  Teams teams;
  for (int64_t n : kElementCounts) {
    for (DType x_dtype : {DType::F32, DType::BF16, DType::F16}) {
      for (DType y_dtype : {DType::F32, DType::BF16, DType::F16}) {
        expect_agreement(teams, Operands(x_dtype, y_dtype, n), 0.0,
                         [](const KernelTable& kernels, Stream& stream, Operands& o) {
                           kernels.convert(stream, {o.x.row(), o.out.row()});
                         });
      }
      expect_agreement(teams, Operands(x_dtype, x_dtype, n), 0.0,
                       [](const KernelTable& kernels, Stream& stream, Operands& o) {
                         kernels.sum(stream, {o.x.row(), o.y.row(), o.out.row()});
                       });
    }
    for (const DType dtype : {DType::F32, DType::BF16}) {
      expect_agreement(teams, Operands(dtype, dtype, n), 0.0,
                       [](const KernelTable& kernels, Stream& stream, Operands& o) {
                         kernels.add(stream, {o.x.row(), o.out.row()});
                       });
    }
    expect_agreement(teams, Operands(DType::BF16, DType::BF16, n), 0.0,
                     [](const KernelTable& kernels, Stream& stream, Operands& o) {
                       kernels.zero(stream, {o.out.row()});
                     });
  }
}

// Tests every upper half of an fp32 and its neighbours: rounding up and down, ties, denormals, NaN.
TEST(Elementwise, ConversionRoundsAsBf16DoesForEveryPattern) {
  Teams teams;
  std::vector<float> x;
  for (uint32_t high = 0; high < 0x10000; ++high) {
    for (uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      x.push_back(std::bit_cast<float>(high << 16 | low));
    }
  }
  const int64_t n = int64_t(x.size());
  std::vector<bf16> y(x.size());
  for (Isa isa : supported_isas()) {
    cpu_kernels(isa).convert(teams.of_2,
                             {{x.data(), DType::F32, Shape{n}}, {y.data(), DType::BF16, Shape{n}}});
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(y[i].bits, bf16(x[i]).bits) << i;
  }
}

TEST(Elementwise, SumMayOverwriteEitherTerm) {
  Teams teams;
  Operands apart(DType::BF16, DType::BF16, 50001), onto_x = apart, onto_y = apart;
  const KernelTable& kernels = cpu_kernels(supported_isas().back());
  kernels.sum(teams.of_2, {apart.x.row(), apart.y.row(), apart.out.row()});
  kernels.sum(teams.of_2, {onto_x.x.row(), onto_x.y.row(), onto_x.x.row()});
  kernels.sum(teams.of_2, {onto_y.x.row(), onto_y.y.row(), onto_y.y.row()});
  EXPECT_TRUE(onto_x.x == apart.out);
  EXPECT_TRUE(onto_y.y == apart.out);
}

struct MatrixOperands {
  MatrixOperands(DType x_dtype, DType y_dtype, int64_t rows, int64_t cols)
      : x(x_dtype, rows, cols, 3, 1), y(y_dtype, rows, cols, 1, 2) {}
  bool operator==(const MatrixOperands&) const = default;
  RandomMatrix x, y;
};

TEST(CopyMatrix, AgreesWithTheReferenceEverywhere) {
  Teams teams;
  for (DType x_dtype : {DType::F32, DType::BF16, DType::F16}) {
    for (DType y_dtype : {DType::F32, DType::BF16, DType::F16}) {
      for (Write write : {Write::Overwrite, Write::Accumulate}) {
        if (write == Write::Accumulate && y_dtype != DType::F32) continue;
        for (int64_t cols : {1, 17, 515}) {
          const auto run = [&](const KernelTable& kernels, Stream& stream, MatrixOperands& o) {
            kernels.copy_matrix(stream, {o.x, o.y, write});
          };
          const MatrixOperands start(x_dtype, y_dtype, 61, cols);
          EXPECT_TRUE(same_bits_everywhere(teams, start, run) == by_reference(teams, start, run));
        }
      }
    }
  }
}

}  // namespace
}  // namespace trireme
