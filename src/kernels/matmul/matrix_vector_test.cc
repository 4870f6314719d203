#include "kernels/matmul/matrix_vector.h"

#include "kernels/kernel_laws.h"

namespace trireme {
namespace {

struct MatrixVectorOperands {
  MatrixVectorOperands(DType dtype, int64_t rows, int64_t cols)
      : a(dtype, rows, cols, 3, 1),
        x_K(DType::F32, 1, cols, 0, 2),
        x_M(DType::F32, 1, rows, 0, 3),
        y_M(DType::F32, 1, rows, 0, 4),
        squares_M(DType::F32, 1, rows, 0, 5),
        y_K(DType::F32, 1, cols, 0, 6),
        squares_K(DType::F32, 1, cols, 0, 7) {}
  bool operator==(const MatrixVectorOperands&) const = default;

  RandomMatrix a, x_K, x_M, y_M, squares_M, y_K, squares_K;
};

constexpr int64_t kExtents[][2] = {{1, 1}, {3, 7}, {33, 65}, {40, 1027}, {1100, 48}, {34, 8209}};

// Sums of up to 8209 products in fp32.
TEST(MatrixVector, AgreesWithTheReferenceEverywhere) {
  Teams teams;
  for (const DType dtype : {DType::F32, DType::BF16, DType::F16}) {
    for (const auto& [rows, cols] : kExtents) {
      const MatrixVectorOperands start(dtype, rows, cols);
      const auto run = [&](const KernelTable& kernels, Stream& stream, MatrixVectorOperands& o) {
        kernels.row_dots(stream, {o.a, o.x_K.row(), o.y_M.row(), o.squares_M.row()});
        kernels.row_combination(stream, {o.a, o.x_M.row(), o.y_K.row(), o.squares_K.row()});
      };
      const MatrixVectorOperands got = same_bits_everywhere(teams, start, run);
      const MatrixVectorOperands want = by_reference(teams, start, run);
      expect_near(got.y_M, want.y_M, 2e-5, "a x");
      expect_near(got.squares_M, want.squares_M, 2e-6, "squares of rows");
      expect_near(got.y_K, want.y_K, 2e-5, "x a");
      expect_near(got.squares_K, want.squares_K, 2e-6, "squares of columns");
    }
  }
}

}  // namespace
}  // namespace trireme
