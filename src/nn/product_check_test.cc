#include "nn/product_check.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <iostream>
#include <random>

#include "kernels/own_stream.h"
#include "kernels/random_matrix.h"

namespace trireme {
namespace {

// The operands of one product c = a b with everything that can be added to it.
struct CheckedOperands {
  CheckedOperands(MatmulForm form, DType dtype, DType result, int64_t M, int64_t N, int64_t K,
                  uint64_t site)
      : form(form),
        a(dtype, form == MatmulForm::TN ? K : M, form == MatmulForm::TN ? M : K, 2, site),
        b(dtype, form == MatmulForm::NT ? N : K, form == MatmulForm::NT ? K : N, 1, site + 1),
        c(result, M, N, 3, site + 2),
        bias(dtype, 1, N, 0, site + 3),
        residual(result, M, N, 0, site + 4) {}

  MatmulArgs args(bool has_addends, Write write) {
    MatmulArgs args{.form = form, .a = a, .b = b, .c = c, .write = write};
    if (has_addends) {
      args.bias_N = bias.row();
      args.residual_MN = residual;
    }
    return args;
  }

  MatmulForm form;
  RandomMatrix a, b, c, bias, residual;
};

const KernelTable& fastest() { return cpu_kernels(supported_isas().back()); }

// What a broken core does to c. A kernel is a plain function, so the fault stands beside it.
thread_local std::function<void(const MatrixRef& c_MN)> fault;

KernelTable broken_kernels() {
  KernelTable kernels = fastest();
  kernels.matmul = [](Stream& stream, const MatmulArgs& args) {
    fastest().matmul(stream, args);
    fault(args.c);
  };
  return kernels;
}

double number_at(const MatrixRef& c_MN, int64_t row, int64_t col) {
  if (c_MN.dtype == DType::F32) return c_MN.row<float>(row)[col];
  return float(c_MN.row<bf16>(row)[col]);
}

TEST(ProductCheck, ARightProductIsNeverAlarmed) {
  OwnStream stream(2);
  ProductCheck check(1);
  uint64_t site = 0;
  int64_t num_products = 0;
  constexpr int64_t kShapes[][3] = {{1, 1, 1},      {3, 17, 5},    {64, 96, 48},
                                    {130, 33, 257}, {8, 2000, 64}, {200, 40, 1500}};
  for (const MatmulForm form : {MatmulForm::NT, MatmulForm::NN, MatmulForm::TN}) {
    for (const DType dtype : {DType::F32, DType::BF16, DType::F16}) {
      for (const auto& [M, N, K] : kShapes) {
        for (const bool has_addends : {false, true}) {
          if (has_addends && form == MatmulForm::TN) continue;
          const bool sums_in_fp32 = form == MatmulForm::TN || dtype == DType::F32;
          const DType result = sums_in_fp32 ? DType::F32 : dtype;
          for (const Write write : {Write::Overwrite, Write::Accumulate}) {
            if (write == Write::Accumulate && (has_addends || result != DType::F32)) continue;
            CheckedOperands o(form, dtype, result, M, N, K, site += 10);
            for (int i = 0; i < 20; ++i) {
              check.multiply(stream, fastest(), o.args(has_addends, write));
              ++num_products;
            }
            EXPECT_EQ(check.take_alarm(), "") << name_of(dtype) << " " << M << " " << N << " " << K;
          }
        }
      }
    }
  }
  EXPECT_EQ(check.num_products(), num_products);
}

// Products of diverging and vanishing runs: squares that overflow or vanish, infinities, NaN, and
// results that are subnormal in fp16.
TEST(ProductCheck, ARightProductOfExtremeNumbersIsNeverAlarmed) {
  OwnStream stream(1);
  ProductCheck check(1);
  uint64_t site = 0;
  for (const MatmulForm form : {MatmulForm::NT, MatmulForm::NN, MatmulForm::TN}) {
    for (const DType dtype : {DType::F32, DType::BF16, DType::F16}) {
      for (const float of_a : {1e-38f, 1e-30f, 1e-22f, 1e-12f, 1e-6f, 1e-4f, 1e15f, 1e25f, 1e38f}) {
        for (const float of_b : {1e-30f, 1e-12f, 1e-3f, 1.0f, 1e20f, 1e38f}) {
          CheckedOperands o(form, dtype, form == MatmulForm::TN ? DType::F32 : dtype, 9, 70, 33,
                            site += 10);
          o.a = RandomMatrix(dtype, o.a.rows(), o.a.cols(), 2, site, of_a);
          o.b = RandomMatrix(dtype, o.b.rows(), o.b.cols(), 1, site + 1, of_b);
          for (int i = 0; i < 4; ++i) {
            check.multiply(stream, fastest(), o.args(false, Write::Overwrite));
            EXPECT_EQ(check.take_alarm(), "") << name_of(dtype) << " " << of_a << " x " << of_b;
          }
        }
      }
    }
  }
}

// The check changes nothing: the product has the bits that it has without.
TEST(ProductCheck, AProductHasTheSameBitsWithAndWithoutIt) {
  OwnStream stream(2);
  ProductCheck check(1);
  CheckedOperands o(MatmulForm::TN, DType::BF16, DType::F32, 70, 50, 90, 1), other = o;
  check.multiply(stream, fastest(), o.args(false, Write::Accumulate));
  fastest().matmul(stream, other.args(false, Write::Accumulate));
  EXPECT_TRUE(o.c == other.c);
}

// An element that is wrong by more than the norm of its row is found in every place.
TEST(ProductCheck, AnElementThatIsFarOffIsNamedWithItsRow) {
  OwnStream stream(2);
  const KernelTable broken = broken_kernels();
  ProductCheck check(1);
  std::mt19937_64 random(1);
  for (const MatmulForm form : {MatmulForm::NT, MatmulForm::NN, MatmulForm::TN}) {
    for (const DType result : {DType::F32, DType::BF16}) {
      for (int trial = 0; trial < 100; ++trial) {
        CheckedOperands o(form, DType::BF16, result, 20, 30, 40, random());
        const int64_t row = int64_t(random() % 20), col = int64_t(random() % 30);
        fault = [&](const MatrixRef& c_MN) {
          double squares = 0.0;
          for (int64_t n = 0; n < 30; ++n) squares += std::pow(number_at(c_MN, row, n), 2);
          o.c.set(row, col, float(number_at(c_MN, row, col) + std::sqrt(squares)));
        };
        check.multiply(stream, broken, o.args(false, Write::Overwrite));
        const std::string alarm = check.take_alarm();
        EXPECT_NE(alarm.find(fmt::format("row {} times", row)), std::string::npos) << alarm;
      }
    }
  }
}

// The share of single flipped bits that are found, for docs/silent_corruption.md.
TEST(ProductCheck, RecallByClassOfBit) {
  OwnStream stream(2);
  const KernelTable broken = broken_kernels();
  ProductCheck check(1);
  std::mt19937_64 random(1);
  constexpr int kFlips = 300;
  struct Bits {
    const char* name;
    int first, end;
  };
  for (const DType result : {DType::F32, DType::BF16}) {
    const int width = int(8 * size_of(result));
    for (const Bits& bits : {Bits{"sign", width - 1, width},
                             {"highest exponent bit", width - 2, width - 1},
                             {"exponent", width - 9, width - 1},
                             {"mantissa", 0, width - 9}}) {
      int found = 0;
      for (int trial = 0; trial < kFlips; ++trial) {
        CheckedOperands o(MatmulForm::NT, DType::BF16, result, 16, 64, 64, random());
        fault = [&](const MatrixRef& c_MN) {
          const int bit = bits.first + int(random() % uint64_t(bits.end - bits.first));
          auto* row = static_cast<unsigned char*>(
              static_cast<void*>(static_cast<char*>(c_MN.data) +
                                 int64_t(random() % 16) * c_MN.stride * size_of(result)));
          unsigned char& byte = row[int64_t(random() % 64) * size_of(result) + bit / 8];
          byte = static_cast<unsigned char>(byte ^ (1u << (bit % 8)));
        };
        check.multiply(stream, broken, o.args(false, Write::Overwrite));
        found += check.take_alarm().empty() ? 0 : 1;
      }
      std::cout << name_of(result) << ", " << bits.name << ": " << found << " of " << kFlips
                << " found\n";
      const bool is_sign = bits.end == width, is_highest = bits.first == width - 2;
      EXPECT_GE(found, is_highest ? kFlips : is_sign ? kFlips / 2 : 0) << bits.name;
    }
  }
}

}  // namespace
}  // namespace trireme
