#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/kernel_table.h"
#include "kernels/matmul/matmul_cases.h"
#include "kernels/random_matrix.h"
#include "kernels/test_stream.h"

namespace trireme {
namespace {

constexpr MatmulForm kForms[] = {MatmulForm::NT, MatmulForm::NN, MatmulForm::TN};
constexpr DType kDTypes[] = {DType::F32, DType::BF16, DType::F16};

// The operands of one product, in strided matrices surrounded by NaN.
struct Operands {
  Operands(MatmulForm form, DType dtype, DType c_dtype, const MatmulShape& shape)
      : form(form),
        a(dtype, form == MatmulForm::TN ? shape.k : shape.rows,
          form == MatmulForm::TN ? shape.rows : shape.k, 3, 1),
        b(dtype, form == MatmulForm::NT ? shape.cols : shape.k,
          form == MatmulForm::NT ? shape.k : shape.cols, 5, 2),
        bias(dtype, 1, shape.cols, 0, 3),
        residual(c_dtype, shape.rows, shape.cols, 1, 4),
        c(c_dtype, shape.rows, shape.cols, 7, 5) {}

  MatmulArgs plain(RandomMatrix& result) { return {.form = form, .a = a, .b = b, .c = result}; }
  MatmulArgs fused(RandomMatrix& result) {
    MatmulArgs args = plain(result);
    args.bias_N = bias.row();
    args.residual_MN = residual;
    return args;
  }
  MatmulArgs accumulating(RandomMatrix& result) {
    MatmulArgs args = plain(result);
    args.write = Write::Accumulate;
    return args;
  }

  MatmulForm form;
  RandomMatrix a, b, bias, residual, c;
};

// The tolerance for fp32 is k roundings of sums of numbers below 1; a c in bf16 or fp16 adds half a
// unit in the last of 8 or 11 bits.
void expect_near(const RandomMatrix& got, const RandomMatrix& want, DType c_dtype,
                 const MatmulShape& shape) {
  for (int64_t row = 0; row < shape.rows; ++row) {
    for (int64_t col = 0; col < shape.cols; ++col) {
      const float value = want.get(row, col);
      const float unit = c_dtype == DType::BF16  ? 1.0f / 128.0f
                         : c_dtype == DType::F16 ? 1.0f / 1024.0f
                                                 : 0.0f;
      const float rounding = unit * std::abs(value);
      ASSERT_NEAR(got.get(row, col), value, 2e-6 * (2 + std::sqrt(shape.k) * 4) + rounding)
          << row << ", " << col;
    }
  }
}

template <typename Body>  // body(operands, c dtype, shape)
void for_every_product(Body&& body) {
  for (MatmulForm form : kForms) {
    for (DType dtype : kDTypes) {
      for (DType c_dtype : {DType::F32, dtype}) {
        if (form == MatmulForm::TN && c_dtype == DType::F16) continue;
        for (const MatmulShape& shape : odd_matmul_shapes()) {
          SCOPED_TRACE("form " + std::to_string(int(form)) + " " + std::string(name_of(dtype)) +
                       " -> " + std::string(name_of(c_dtype)) + " " + std::to_string(shape.rows) +
                       " x " + std::to_string(shape.cols) + " x " + std::to_string(shape.k));
          Operands operands(form, dtype, c_dtype, shape);
          body(operands, c_dtype, shape);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

template <typename Body>  // body(kernels)
void for_every_isa(Body&& body) {
  for (Isa isa : supported_isas()) {
    SCOPED_TRACE(name_of(isa));
    body(cpu_kernels(isa));
    if (testing::Test::HasFatalFailure()) return;
  }
}

template <typename Body>  // body(kernels, operands, c dtype, shape)
void for_every_case(Body&& body) {
  for_every_product([&](Operands& operands, DType c_dtype, const MatmulShape& shape) {
    for_every_isa([&](const KernelTable& kernels) { body(kernels, operands, c_dtype, shape); });
  });
}

TEST(Matmul, AgreesWithReferenceForEveryInstructionSetFormAndDType) {
  TestStream threads(2);
  for_every_product([&](Operands& operands, DType c_dtype, const MatmulShape& shape) {
    for (int variant = 0; variant < 3; ++variant) {
      if (variant == 2 && c_dtype == DType::F16) continue;
      const auto args = [&](RandomMatrix& c) {
        if (variant == 0) return operands.plain(c);
        return variant == 1 ? operands.fused(c) : operands.accumulating(c);
      };
      RandomMatrix want = operands.c;
      matmul_ref(threads.stream, args(want));
      for_every_isa([&](const KernelTable& kernels) {
        RandomMatrix got = operands.c;
        kernels.matmul(threads.stream, args(got));
        expect_near(got, want, c_dtype, shape);
      });
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(Matmul, BitsDoNotDependOnThreads) {
  TestStream one(1), two(2), four(4);
  for_every_case([&](const KernelTable& kernels, Operands& operands, DType, const MatmulShape&) {
    RandomMatrix want = operands.c;
    kernels.matmul(one.stream, operands.fused(want));
    for (TestStream* threads : {&two, &four}) {
      RandomMatrix got = operands.c;
      kernels.matmul(threads->stream, operands.fused(got));
      ASSERT_TRUE(got == want);
    }
  });
}

TEST(Matmul, BitsOfARowOrColumnDoNotDependOnTheOthers) {
  TestStream threads(2);
  for_every_case([&](const KernelTable& kernels, Operands& operands, DType c_dtype,
                     const MatmulShape& shape) {
    const bool accumulates = c_dtype == DType::F32;
    const auto args = [&](RandomMatrix& c) {
      return accumulates ? operands.accumulating(c) : operands.fused(c);
    };
    RandomMatrix want = operands.c;
    kernels.matmul(threads.stream, args(want));
    RandomMatrix by_rows = operands.c;
    for (int64_t begin = 0, part = 1; begin < shape.rows; begin += part, part += 2) {
      MatmulArgs rows = args(by_rows);
      const int64_t count = std::min(part, shape.rows - begin);
      rows.a = operands.form == MatmulForm::TN ? cols_of(rows.a, begin, count)
                                               : rows_of(rows.a, begin, count);
      rows.c = rows_of(rows.c, begin, count);
      if (rows.residual_MN) rows.residual_MN = rows_of(rows.residual_MN, begin, count);
      kernels.matmul(threads.stream, rows);
    }
    ASSERT_TRUE(by_rows == want);
    RandomMatrix by_cols = operands.c;
    for (int64_t begin = 0, part = 3; begin < shape.cols; begin += part, part += 9) {
      MatmulArgs cols = args(by_cols);
      const int64_t count = std::min(part, shape.cols - begin);
      cols.b = operands.form == MatmulForm::NT ? rows_of(cols.b, begin, count)
                                               : cols_of(cols.b, begin, count);
      cols.c = cols_of(cols.c, begin, count);
      if (cols.residual_MN) {
        cols.residual_MN = cols_of(cols.residual_MN, begin, count);
        cols.bias_N = {static_cast<char*>(cols.bias_N.data) + begin * size_of(cols.bias_N.dtype),
                       cols.bias_N.dtype, Shape{count}};
      }
      kernels.matmul(threads.stream, cols);
    }
    ASSERT_TRUE(by_cols == want);
  });
}

TEST(Matmul, ResidualMayBeTheResultItself) {
  TestStream threads(2);
  for_every_case([&](const KernelTable& kernels, Operands& operands, DType, const MatmulShape&) {
    RandomMatrix want = operands.c;
    RandomMatrix got = operands.c;
    MatmulArgs apart = operands.plain(want);
    RandomMatrix copy = operands.c;
    apart.residual_MN = copy;
    kernels.matmul(threads.stream, apart);
    MatmulArgs in_place = operands.plain(got);
    in_place.residual_MN = got;
    kernels.matmul(threads.stream, in_place);
    ASSERT_TRUE(got == want);
  });
}

// Has more tiles, panels and blocks of k than the odd shapes, and too many elements for the
// reference.
TEST(Matmul, ALargeProductOfSmallIntegersIsExact) {
  TestStream threads(2);
  const MatmulShape shape{600, 330, 2300};
  const auto a = [](int64_t row, int64_t k) { return float((row * 3 + k * 5) % 7 - 3); };
  const auto b = [](int64_t k, int64_t col) { return float((k * 2 + col * 3) % 7 - 3); };
  const auto fill = [](RandomMatrix& x, bool is_transposed, const auto& element) {
    const MatrixRef extents = x;
    for (int64_t row = 0; row < extents.rows; ++row) {
      for (int64_t col = 0; col < extents.cols; ++col) {
        x.set(row, col, is_transposed ? element(col, row) : element(row, col));
      }
    }
  };
  // Each element takes k operations, so only a lattice that meets every tile is compared.
  std::vector<float> lattice;
  for (int64_t row = 0; row < shape.rows; row += 7) {
    for (int64_t col = 0; col < shape.cols; col += 11) {
      float sum = 0.0f;
      for (int64_t k = 0; k < shape.k; ++k) sum += a(row, k) * b(k, col);
      lattice.push_back(sum);
    }
  }
  for (MatmulForm form : kForms) {
    for (DType dtype : kDTypes) {
      SCOPED_TRACE("form " + std::to_string(int(form)) + " " + std::string(name_of(dtype)));
      Operands operands(form, dtype, DType::F32, shape);
      fill(operands.a, form == MatmulForm::TN, a);
      fill(operands.b, form == MatmulForm::NT, b);
      for_every_isa([&](const KernelTable& kernels) {
        RandomMatrix got = operands.c;
        kernels.matmul(threads.stream, operands.plain(got));
        auto want = lattice.begin();
        for (int64_t row = 0; row < shape.rows; row += 7) {
          for (int64_t col = 0; col < shape.cols; col += 11) {
            ASSERT_EQ(got.get(row, col), *want++) << row << ", " << col;
          }
        }
      });
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// A product whose rows of c are aligned, and so are written past the caches, has the bits of one
// whose rows are not.
void check_streamed(MatmulForm form, DType dtype, const MatmulShape& shape) {
  TestStream one(1), four(4);
  const bool has_rows_of_k = form == MatmulForm::TN;
  RandomMatrix a(dtype, has_rows_of_k ? shape.k : shape.rows, has_rows_of_k ? shape.rows : shape.k,
                 3, 1);
  RandomMatrix b(dtype, has_rows_of_k ? shape.k : shape.cols, has_rows_of_k ? shape.cols : shape.k,
                 5, 2);
  const int64_t aligned_cols = (shape.cols + 15) / 16 * 16;
  const Tensor unaligned(DType::F32, Shape{shape.rows, aligned_cols + 7});
  const Tensor aligned(DType::F32, Shape{shape.rows, aligned_cols});
  const MatrixRef want = cols_of(matrix(unaligned), 0, shape.cols);
  const MatrixRef c = cols_of(matrix(aligned), 0, shape.cols);
  for_every_isa([&](const KernelTable& kernels) {
    kernels.matmul(one.stream, {.form = form, .a = a, .b = b, .c = want});
    for (TestStream* threads : {&one, &four}) {
      kernels.matmul(threads->stream, {.form = form, .a = a, .b = b, .c = c});
      for (int64_t row = 0; row < shape.rows; ++row) {
        ASSERT_EQ(std::memcmp(c.row<float>(row), want.row<float>(row),
                              size_t(shape.cols) * sizeof(float)),
                  0)
            << row;
      }
    }
  });
}

TEST(Matmul, AGradientHasTheSameBitsPastTheCaches) {
  for (DType dtype : kDTypes) check_streamed(MatmulForm::TN, dtype, {1024, 516, 9});
}

TEST(Matmul, LogitsHaveTheSameBitsPastTheCaches) {
  for (int64_t k : {2, 3}) check_streamed(MatmulForm::NT, DType::BF16, {168, 50257, k});
  check_streamed(MatmulForm::NT, DType::F32, {168, 50257, 2});
}

TEST(Matmul, RefusesShapesThatDoNotFit) {
  TestStream threads(1);
  RandomMatrix a(DType::F32, 4, 8, 0, 1), b(DType::F32, 5, 7, 0, 2), c(DType::F32, 4, 5, 0, 3);
  EXPECT_THROW(matmul_ref(threads.stream, {.form = MatmulForm::NT, .a = a, .b = b, .c = c}),
               ContractError);
}

TEST(ColumnSum, AgreesWithReferenceAndDoesNotDependOnThreadsOrColumns) {
  TestStream one(1), two(2);
  for (Isa isa : supported_isas()) {
    const KernelTable& kernels = cpu_kernels(isa);
    for (DType dtype : kDTypes) {
      for (const MatmulShape& shape : odd_matmul_shapes()) {
        for (int variant = 0; variant < 4; ++variant) {
          const Write write = variant % 2 == 0 ? Write::Overwrite : Write::Accumulate;
          const DType sum_dtype = variant < 2 ? DType::F32 : DType::BF16;
          const int64_t rows = shape.k, cols = shape.cols;
          RandomMatrix dy(dtype, rows, cols, 2, 6);
          RandomMatrix want(sum_dtype, 1, cols, 0, 7);
          RandomMatrix got = want, got_two = want, parts = want;
          column_sum_ref(one.stream, {dy, want.row(), write});
          kernels.column_sum(one.stream, {dy, got.row(), write});
          kernels.column_sum(two.stream, {dy, got_two.row(), write});
          for (int64_t col = 0; col < cols; ++col) {
            const double rounding =
                sum_dtype == DType::BF16 ? std::abs(want.get(0, col)) / 128.0 : 0.0;
            ASSERT_NEAR(got.get(0, col), want.get(0, col), 1e-6 * (1 + double(rows)) + rounding);
            const MatrixRef at = cols_of(parts.ref(), col, 1);
            TensorRef part{at.data, sum_dtype, Shape{1}};
            kernels.column_sum(one.stream, {cols_of(dy, col, 1), part, write});
          }
          ASSERT_TRUE(got == got_two);
          ASSERT_TRUE(got == parts);
        }
      }
    }
  }
}

}  // namespace
}  // namespace trireme
