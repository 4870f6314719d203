#include "kernels/batch_norm/batch_norm.h"

#include "kernels/batch_norm/batch_norm_cases.h"
#include "kernels/kernel_laws.h"

namespace trireme {
namespace {

struct BatchNormCase {
  DType dtype;
  BatchNormShape shape;
  Write write = Write::Overwrite;
  int64_t rows() const { return shape.blocks * shape.block_rows; }
  std::string name() const {
    return std::string(name_of(dtype)) + " " + std::to_string(shape.blocks) + " x " +
           std::to_string(shape.block_rows) + " rows of " + std::to_string(shape.cols);
  }
};

struct Operands {
  explicit Operands(const BatchNormCase& c)
      : x(c.dtype, c.rows(), c.shape.cols, 3, 1),
        gain(c.dtype, 1, c.shape.cols, 0, 2),
        bias(c.dtype, 1, c.shape.cols, 0, 3),
        y(c.dtype, c.rows(), c.shape.cols, 1, 4),
        dy(c.dtype, c.rows(), c.shape.cols, 2, 5),
        dx(c.dtype, c.rows(), c.shape.cols, 0, 6),
        mean(DType::F32, 1, c.shape.cols, 0, 7),
        rstd(DType::F32, 1, c.shape.cols, 0, 8),
        mean_sum(DType::F32, 1, c.shape.cols, 0, 9),
        variance_sum(DType::F32, 1, c.shape.cols, 0, 10),
        dgain(DType::F32, 1, c.shape.cols, 0, 11),
        dbias(DType::F32, 1, c.shape.cols, 0, 12),
        total(DType::F32, 2, c.shape.cols, 0, 13),
        sums(DType::F32, 2 * c.shape.blocks, c.shape.cols, 0, 14) {}
  bool operator==(const Operands&) const = default;
  TensorRef blocks(int64_t begin, int64_t count) {
    const MatrixRef rows = rows_of(sums, 2 * begin, 2 * count);
    return {rows.data, DType::F32, Shape{count, 2, rows.cols}};
  }
  RandomMatrix x, gain, bias, y, dy, dx, mean, rstd, mean_sum, variance_sum, dgain, dbias, total,
      sums;
};

// Runs forward and backward. Each call of moments and sums has `per_call` blocks, as on ranks that
// have so many each.
void run(const KernelTable& kernels, Stream& stream, const BatchNormCase& c, Operands& o,
         int64_t per_call) {
  const auto [blocks, block_rows, cols] = c.shape;
  for (int64_t b = 0; b < blocks; b += per_call) {
    const int64_t count = std::min(per_call, blocks - b);
    kernels.batch_norm_moments(
        stream, {rows_of(o.x, b * block_rows, count * block_rows), block_rows, o.blocks(b, count)});
  }
  kernels.batch_norm_statistics(
      stream, {o.blocks(0, blocks), block_rows, 1e-5f, o.mean.row(), o.rstd.row(), o.mean_sum.row(),
               o.variance_sum.row(), c.write});
  kernels.batch_norm_forward(stream,
                             {o.x, o.mean.row(), o.rstd.row(), o.gain.row(), o.bias.row(), o.y});
  for (int64_t b = 0; b < blocks; b += per_call) {
    const int64_t count = std::min(per_call, blocks - b);
    kernels.batch_norm_backward_sums(
        stream, {rows_of(o.dy, b * block_rows, count * block_rows),
                 rows_of(o.x, b * block_rows, count * block_rows), o.mean.row(), o.rstd.row(),
                 block_rows, o.blocks(b, count)});
  }
  const MatrixRef total = o.total;
  const TensorRef total_2C{total.data, DType::F32, Shape{2, cols}};
  kernels.batch_norm_backward_weight(
      stream, {o.blocks(0, blocks), total_2C, o.dgain.row(), o.dbias.row(), c.write});
  kernels.batch_norm_backward_input(stream, {o.dy, o.x, o.mean.row(), o.rstd.row(), o.gain.row(),
                                             total_2C, c.rows(), o.dx, c.write});
}

TEST(BatchNorm, AgreesWithReferenceAndHasTheSameBitsEverywhere) {
  Teams teams;
  for (DType dtype : {DType::F32, DType::BF16, DType::F16}) {
    for (const BatchNormShape& shape : kBatchNormShapes) {
      for (Write write : {Write::Overwrite, Write::Accumulate}) {
        const BatchNormCase c{dtype, shape, write};
        SCOPED_TRACE(c.name());
        const Operands start(c);
        const auto call = [&](const KernelTable& kernels, Stream& stream, Operands& o) {
          run(kernels, stream, c, o, shape.blocks);
        };
        Operands got = same_bits_everywhere(teams, start, call);
        Operands want = by_reference(teams, start, call);
        // With one row, x - mean is 0 in exact arithmetic; rstd is up to 1/sqrt(eps) then.
        const double tolerance = c.rows() < 4 ? 1e-3 : 2e-5;
        expect_near(got.mean, want.mean, 1e-6, "mean");
        expect_near(got.rstd, want.rstd, tolerance, "rstd");
        expect_near(got.mean_sum, want.mean_sum, 1e-6, "sum of means");
        expect_near(got.variance_sum, want.variance_sum, 1e-6, "sum of variances");
        expect_near(got.y, want.y, tolerance, "y");
        expect_near(got.dx, want.dx, tolerance, "dx");
        expect_near(got.dgain, want.dgain, tolerance, "dgain");
        expect_near(got.dbias, want.dbias, tolerance, "dbias");
      }
    }
  }
}

// Ranks that have a part of the images each, and gather the sums of all, get the bits of a single
// rank.
TEST(BatchNorm, BitsDoNotDependOnHowManyBlocksACallSums) {
  Teams teams;
  for (const BatchNormShape& shape : kBatchNormShapes) {
    const BatchNormCase c{DType::F32, shape};
    Operands want(c);
    run(cpu_kernels(Isa::Avx2), teams.of_2, c, want, shape.blocks);
    for (int64_t per_call : {1, 2, 3}) {
      Operands got(c);
      run(cpu_kernels(Isa::Avx2), teams.of_2, c, got, per_call);
      EXPECT_TRUE(got == want) << c.name() << ", " << per_call << " blocks a call";
    }
  }
}

// Ranks that have unequal numbers of rows of every image: blocks of two heights have the statistics
// of all rows.
TEST(BatchNorm, StatisticsOfBlocksOfTwoHeightsAreThoseOfAllRows) {
  Teams teams;
  for (const auto& [taller, others] : {std::pair{1, 2}, {2, 1}, {3, 4}, {5, 5}, {4, 0}}) {
    const int64_t rows = taller * 5 + others * 4, blocks = taller + others;
    const BatchNormCase all{DType::F32, {1, rows, 19}};
    Operands want(all), reference(all);
    run(cpu_kernels(supported_isas().back()), teams.of_1, all, want, 1);
    for (const bool is_reference : {false, true}) {
      const KernelTable& kernels =
          is_reference ? reference_kernels() : cpu_kernels(supported_isas().back());
      Operands got({DType::F32, {blocks, 1, 19}});
      const auto moments = [&](int64_t first_row, int64_t block, int64_t count, int64_t height) {
        if (count == 0) return;
        kernels.batch_norm_moments(teams.of_1, {rows_of(want.x, first_row, count * height), height,
                                                got.blocks(block, count)});
      };
      moments(0, 0, taller, 5);
      moments(taller * 5, taller, others, 4);
      kernels.batch_norm_statistics(teams.of_1, {.moments_B2C = got.blocks(0, blocks),
                                                 .block_rows = 4,
                                                 .mean_C = got.mean.row(),
                                                 .rstd_C = got.rstd.row(),
                                                 .mean_sum_C = got.mean_sum.row(),
                                                 .variance_sum_C = got.variance_sum.row(),
                                                 .taller_blocks = taller,
                                                 .taller_rows = 5});
      expect_near(got.mean, want.mean, 1e-6, "mean");
      expect_near(got.rstd, want.rstd, 1e-5, "rstd");
      expect_near(got.variance_sum, want.variance_sum, 1e-6, "sum of variances");
    }
  }
}

TEST(BatchNorm, NormalizedChannelsHaveTheMomentsOfGainAndBias) {
  Teams teams;
  const BatchNormCase c{DType::F32, {4, 100, 33}};
  Operands o(c);
  for (int64_t r = 0; r < c.rows(); ++r) {  // far from zero, where a sum of squares would cancel
    for (int64_t col = 0; col < 33; ++col) o.x.set(r, col, 1000.0f + o.x.get(r, col));
  }
  run(cpu_kernels(supported_isas().back()), teams.of_2, c, o, 4);
  for (int64_t col = 0; col < 33; ++col) {
    double mean = 0.0, variance = 0.0;
    for (int64_t r = 0; r < c.rows(); ++r) mean += double(o.y.get(r, col)) / double(c.rows());
    for (int64_t r = 0; r < c.rows(); ++r) {
      variance += std::pow(o.y.get(r, col) - mean, 2) / double(c.rows());
    }
    EXPECT_NEAR(mean, o.bias.get(0, col), 2e-3);
    EXPECT_NEAR(variance, std::pow(o.gain.get(0, col), 2), 2e-3);
  }
}

TEST(BatchNorm, GradientsAreFiniteDifferences) {
  Teams teams;
  const KernelTable& kernels = cpu_kernels(supported_isas().back());
  const BatchNormCase c{DType::F32, {3, 11, 19}};
  Operands o(c);
  run(kernels, teams.of_1, c, o, 3);
  const auto loss_of = [&](const RandomMatrix& x, const RandomMatrix& gain,
                           const RandomMatrix& bias) {
    Operands moved_operands(c);
    moved_operands.x = x;
    moved_operands.gain = gain;
    moved_operands.bias = bias;
    run(kernels, teams.of_1, c, moved_operands, 3);
    return inner_product(moved_operands.y, o.dy);
  };
  RandomMatrix dx(DType::F32, 33, 19, 0, 21), d_gain(DType::F32, 1, 19, 0, 22);
  EXPECT_NEAR(inner_product(o.dx, dx),
              derivative([&](double h) { return loss_of(moved(o.x, dx, h), o.gain, o.bias); }),
              2e-3);
  EXPECT_NEAR(inner_product(o.dgain, d_gain),
              derivative([&](double h) { return loss_of(o.x, moved(o.gain, d_gain, h), o.bias); }),
              2e-3);
  EXPECT_NEAR(inner_product(o.dbias, d_gain),
              derivative([&](double h) { return loss_of(o.x, o.gain, moved(o.bias, d_gain, h)); }),
              2e-3);
}

}  // namespace
}  // namespace trireme
