#include "kernels/matmul/quantized_matmul.h"

#include "kernels/kernel_laws.h"

namespace trireme {
namespace {

// A random weight and what is left of it in bytes.
struct QuantizedWeight {
  QuantizedWeight(DType dtype, int64_t rows, int64_t cols)
      : w_FC(dtype, rows, cols, 3, 1, 0.1f),
        q(size_t(rows * cols)),
        scale_FB(DType::F16, rows, cols / kScaleBlock, 1, 2) {
    quantize(w_FC, view());
  }
  QuantizedMatrix view() {
    const int64_t rows = w_FC.rows(), cols = w_FC.cols();
    return {{q.data(), DType::U8, rows, cols, cols}, scale_FB};
  }
  bool operator==(const QuantizedWeight&) const = default;

  RandomMatrix w_FC;
  std::vector<int8_t> q;
  RandomMatrix scale_FB;
};

struct QuantizedOperands {
  QuantizedOperands(DType dtype, DType y_dtype, int64_t rows, int64_t cols, int64_t inner)
      : weight(dtype, cols, inner),
        x(dtype, rows, inner, 5, 3),
        y(y_dtype, rows, cols, 2, 4),
        bias(dtype, 1, cols, 0, 5),
        residual(y_dtype, rows, cols, 7, 6),
        unpacked(dtype, cols, inner, 0, 7) {}
  bool operator==(const QuantizedOperands&) const = default;
  QuantizedMatmulArgs args(bool has_addends) {
    return {.x_TC = x,
            .w = weight.view(),
            .unpacked_FC = unpacked,
            .y_TF = y,
            .bias_F = has_addends ? bias.row() : TensorRef{},
            .residual_TF = has_addends ? residual.ref() : MatrixRef{}};
  }

  QuantizedWeight weight;
  RandomMatrix x, y, bias, residual, unpacked;
};

constexpr DType kDTypes[] = {DType::F32, DType::BF16, DType::F16};

// Few rows are summed alike everywhere.
TEST(QuantizedMatmul, FewRowsAgreeWithTheReferenceEverywhere) {
  Teams teams;
  for (const DType dtype : kDTypes) {
    for (const int64_t rows : {1, 3, 4}) {
      for (const auto& [cols, inner] :
           {std::pair<int64_t, int64_t>{1, 32}, {7, 96}, {9, 224}, {131, 1024}}) {
        for (const bool has_addends : {false, true}) {
          const QuantizedOperands start(dtype, DType::F32, rows, cols, inner);
          const auto run = [&](const KernelTable& kernels, Stream& stream, QuantizedOperands& o) {
            kernels.quantized_matmul(stream, o.args(has_addends));
          };
          const QuantizedOperands got = same_bits_everywhere(teams, start, run);
          expect_near(got.y, by_reference(teams, start, run).y, 2e-5, "x w^T");
        }
      }
    }
  }
}

// More rows multiply weights that are rounded to the dtype of x.
TEST(QuantizedMatmul, ManyRowsAgreeWithTheReference) {
  Teams teams;
  for (const DType dtype : kDTypes) {
    QuantizedOperands start(dtype, DType::F32, 9, 37, 256);
    for (const Isa isa : supported_isas()) {
      QuantizedOperands got = start, want = start;
      cpu_kernels(isa).quantized_matmul(teams.of_2, got.args(true));
      reference_kernels().quantized_matmul(teams.of_1, want.args(true));
      expect_near(got.y, want.y, dtype == DType::F32 ? 2e-5 : 1e-2, "x w^T");
    }
  }
}

TEST(QuantizedMatmul, ARowHasTheSameBitsBesideOthers) {
  Teams teams;
  constexpr int64_t kRows = 4, kCols = 51, kInner = 224;
  for (const Isa isa : supported_isas()) {
    QuantizedOperands all(DType::BF16, DType::BF16, kRows, kCols, kInner);
    cpu_kernels(isa).quantized_matmul(teams.of_2, all.args(true));
    for (const int64_t few : {1, 2, 3}) {
      QuantizedOperands parts(DType::BF16, DType::BF16, kRows, kCols, kInner);
      for (int64_t row = 0; row < kRows; row += few) {
        const int64_t count = std::min(few, kRows - row);
        QuantizedMatmulArgs args = parts.args(true);
        args.x_TC = rows_of(args.x_TC, row, count);
        args.y_TF = rows_of(args.y_TF, row, count);
        args.residual_TF = rows_of(args.residual_TF, row, count);
        cpu_kernels(isa).quantized_matmul(teams.of_1, args);
      }
      EXPECT_TRUE(parts.y == all.y) << few << " rows at a time";
    }
  }
}

// Half a step of the scale, and a unit of fp16 of the whole for the rounding of the scale itself.
TEST(QuantizedMatmul, NoNumberIsOffByMoreThanHalfAStep) {
  for (const DType dtype : kDTypes) {
    QuantizedWeight weight(dtype, 11, 160);
    for (int64_t row = 0; row < 11; ++row) {
      for (int64_t col = 0; col < 160; ++col) {
        const double scale = weight.scale_FB.get(row, col / kScaleBlock);
        const double number = weight.w_FC.get(row, col);
        const double is = scale * weight.q[size_t(row * 160 + col)];
        EXPECT_LE(std::abs(is - number), 0.5 * scale + std::abs(number) / 1024.0);
      }
    }
  }
}

TEST(QuantizedMatmul, ZerosStayZeros) {
  QuantizedWeight weight(DType::F32, 2, 64);
  for (int64_t col = 0; col < 64; ++col) weight.w_FC.set(1, col, 0.0f);
  quantize(weight.w_FC, weight.view());
  for (int64_t col = 0; col < 64; ++col) EXPECT_EQ(weight.q[size_t(64 + col)], 0);
  EXPECT_EQ(weight.scale_FB.get(1, 0), 0.0f);
}

}  // namespace
}  // namespace trireme
