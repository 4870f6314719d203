#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/kernel_table.h"
#include "kernels/random_matrix.h"
#include "kernels/test_stream.h"

namespace trireme {
namespace {

// From zeros and denormals to numbers whose products are large or vanish.
void make_extreme(RandomMatrix& x) {
  constexpr float kScales[] = {1.0f, 1e-39f, 1e30f, 0.0f, 1e-20f, 3e-41f, 1e-30f};
  for (int64_t row = 0; row < x.rows(); ++row) {
    for (int64_t col = 0; col < x.cols(); ++col) {
      x.set(row, col, x.get(row, col) * kScales[(row * 5 + col * 3) % 7]);
    }
  }
}

// A token that is generated alone must see what it would see in a prompt, and beside other prompts.
TEST(FewRowsProduct, ARowHasTheBitsThatItHasBesideOthers) {
  TestStream threads(2);
  for (Isa isa : supported_isas()) {
    for (DType dtype : {DType::F32, DType::BF16, DType::F16}) {
      for (int64_t k : {1, 2, 31, 32, 33, 95, 773}) {
        for (bool is_extreme : {false, true}) {
          SCOPED_TRACE(std::string(name_of(isa)) + " " + std::string(name_of(dtype)) + ", k " +
                       std::to_string(k) + (is_extreme ? ", extreme" : ""));
          // More rows than share blocks of b, and columns for which few rows are no small product.
          constexpr int64_t kRows = 18, kCols = 1061;
          RandomMatrix a(dtype, kRows, k, 3, 1), b(dtype, kCols, k, 5, 2),
              bias(dtype, 1, kCols, 0, 3);
          if (is_extreme && dtype != DType::F16) {
            make_extreme(a);
            make_extreme(b);
          }
          RandomMatrix all(DType::F32, kRows, kCols, 1, 4);
          const auto multiply = [&](MatrixRef rows, MatrixRef c) {
            MatmulArgs args{.form = MatmulForm::NT, .a = rows, .b = b, .c = c};
            if (!is_extreme) args.bias_N = bias.row();  // it would hide small sums
            cpu_kernels(isa).matmul(threads.stream, args);
          };
          multiply(a, all);
          for (int64_t few : {1, 2, 5, 16}) {
            RandomMatrix parts(DType::F32, kRows, kCols, 1, 4);
            for (int64_t row = 0; row < kRows; row += few) {
              const int64_t count = std::min(few, kRows - row);
              multiply(rows_of(a.ref(), row, count), rows_of(parts.ref(), row, count));
            }
            ASSERT_TRUE(parts == all) << few << " rows at a time";
          }
        }
      }
    }
  }
}

// 16 such rows do not fit into the workspace of a thread, but 15 do.
TEST(FewRowsProduct, ALongRowHasTheBitsThatItHasBesideOthers) {
  TestStream threads(2);
  constexpr int64_t kRows = 17, kCols = 17, k = 65601;
  for (Isa isa : supported_isas()) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      RandomMatrix a(dtype, kRows, k, 3, 1), b(dtype, kCols, k, 5, 2);
      const auto product_of_parts = [&](int64_t most) {
        RandomMatrix c(DType::F32, kRows, kCols, 1, 4);
        for (int64_t row = 0; row < kRows; row += most) {
          const int64_t count = std::min(most, kRows - row);
          cpu_kernels(isa).matmul(threads.stream, {.form = MatmulForm::NT,
                                                   .a = rows_of(a.ref(), row, count),
                                                   .b = b,
                                                   .c = rows_of(c.ref(), row, count)});
        }
        return c;
      };
      const RandomMatrix all = product_of_parts(kRows);
      for (int64_t few : {1, 15, 16}) {
        ASSERT_TRUE(product_of_parts(few) == all) << name_of(isa) << ", " << few << " rows";
      }
    }
  }
}

}  // namespace
}  // namespace trireme
