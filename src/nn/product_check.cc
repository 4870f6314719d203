#include "nn/product_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/clock.h"
#include "base/philox.h"

namespace trireme {
namespace {

constexpr double kDeviations = 9.0;
constexpr double kRoundoff = 0x1p-24;  // of fp32

TensorRef vector_of(std::vector<float>& values) {
  return {values.data(), DType::F32, Shape{int64_t(values.size())}};
}

double roundoff_of(DType dtype) {
  if (dtype == DType::BF16) return 0x1p-8;
  return dtype == DType::F16 ? 0x1p-11 : kRoundoff;
}

// Half of the smallest number above zero, which may be what rounding changes near zero.
double smallest_rounding_of(DType dtype) { return dtype == DType::F16 ? 0x1p-25 : 0x1p-127; }

// An upper bound of the norm of `count` numbers. Squares below 2^-126 may have become zero.
double norm_of(double squares, double count) {
  return std::sqrt(squares) + std::sqrt(count) * 0x1p-63;
}

// No number up to this one overflows when it is rounded to the dtype.
double largest_of(DType dtype) { return dtype == DType::F16 ? 6e4 : 1e37; }

const char* pass_of(MatmulForm form) {
  if (form == MatmulForm::NT) return "forward";
  return form == MatmulForm::NN ? "input gradient" : "weight gradient";
}

// Computes a x, where x has one number for each column of `a`.
void dot_rows(Stream& stream, const KernelTable& kernels, const MatrixRef& a_MK,
              std::vector<float>& x_K, VectorSums& sums) {
  sums.values.resize(size_t(a_MK.rows));
  sums.squares.resize(size_t(a_MK.rows));
  kernels.row_dots(stream, {a_MK, vector_of(x_K), vector_of(sums.values), vector_of(sums.squares)});
}

// Computes x a, where x has one number for each row of `a`.
void combine_rows(Stream& stream, const KernelTable& kernels, const MatrixRef& a_MK,
                  std::vector<float>& x_M, VectorSums& sums) {
  sums.values.resize(size_t(a_MK.cols));
  sums.squares.resize(size_t(a_MK.cols));
  kernels.row_combination(stream,
                          {a_MK, vector_of(x_M), vector_of(sums.values), vector_of(sums.squares)});
}

}  // namespace

void ProductCheck::draw_signs(int64_t count) {
  signs_N_.resize(size_t(count));
  constexpr int64_t kBits = 128;
  for (int64_t begin = 0; begin < count; begin += kBits) {
    const PhiloxCounter words =
        philox({seed_}, counter_of(uint64_t(num_products_), uint64_t(begin / kBits)));
    for (int64_t i = begin; i < std::min(begin + kBits, count); ++i) {
      const int64_t bit = i - begin;
      signs_N_[size_t(i)] = (words[size_t(bit / 32)] >> (bit % 32) & 1) != 0 ? 1.0f : -1.0f;
    }
  }
}

// The product may overwrite its addends, so their share of c r is computed before.
void ProductCheck::sum_addends(Stream& stream, const KernelTable& kernels, const MatmulArgs& args) {
  addends_M_.values.assign(size_t(args.c.rows), 0.0f);
  addends_M_.squares.assign(size_t(args.c.rows), 0.0f);
  const auto add = [&](float value, float squares, size_t row) {
    addends_M_.values[row] += value;
    addends_M_.squares[row] += squares;
  };
  const MatrixRef before = args.write == Write::Accumulate ? args.c : MatrixRef{};
  for (const MatrixRef& addend : {args.residual_MN, before}) {
    if (!addend) continue;
    dot_rows(stream, kernels, addend, signs_N_, product_M_);
    for (size_t row = 0; row < product_M_.values.size(); ++row) {
      add(product_M_.values[row], product_M_.squares[row], row);
    }
  }
  if (!args.bias_N) return;
  dot_rows(stream, kernels, matrix(args.bias_N), signs_N_, bias_);
  for (size_t row = 0; row < addends_M_.values.size(); ++row) {
    add(bias_.values[0], bias_.squares[0], row);
  }
}

void ProductCheck::multiply(Stream& stream, const KernelTable& kernels, const MatmulArgs& args) {
  if (args.c.rows == 0 || args.c.cols == 0) return kernels.matmul(stream, args);
  int64_t begin_ns = monotonic_ns();
  draw_signs(args.c.cols);
  sum_addends(stream, kernels, args);
  spent_ns_ += monotonic_ns() - begin_ns;

  kernels.matmul(stream, args);

  begin_ns = monotonic_ns();
  if (args.form == MatmulForm::NT) {
    combine_rows(stream, kernels, args.b, signs_N_, b_);
  } else {
    dot_rows(stream, kernels, args.b, signs_N_, b_);
  }
  if (args.form == MatmulForm::TN) {
    combine_rows(stream, kernels, args.a, b_.values, product_M_);
  } else {
    dot_rows(stream, kernels, args.a, b_.values, product_M_);
  }
  dot_rows(stream, kernels, args.c, signs_N_, result_M_);
  compare(args);
  ++num_products_;
  spent_ns_ += monotonic_ns() - begin_ns;
}

void ProductCheck::compare(const MatmulArgs& args) {
  const auto inner = double(inner_extent(args)), cols = double(args.c.cols);
  const double longest = std::max({inner, double(args.c.rows), cols});
  const double chain = longest / 32.0 + 64.0;
  const double b_norm =
      norm_of(std::accumulate(b_.squares.begin(), b_.squares.end(), 0.0), inner * cols);
  const double absolute = std::sqrt(cols) * smallest_rounding_of(args.c.dtype);
  for (size_t row = 0; row < result_M_.values.size() && alarm_.empty(); ++row) {
    // By the inequality of Cauchy and Schwarz no right row is longer. A wrong one must not raise
    // its own bound.
    const double longest_row = norm_of(product_M_.squares[row], inner) * b_norm +
                               norm_of(addends_M_.squares[row], 3.0 * cols);
    if (!std::isfinite(longest_row)) continue;
    const double c_norm = std::min(norm_of(result_M_.squares[row], cols), longest_row);
    const double bound = kDeviations * (roundoff_of(args.c.dtype) * c_norm + absolute +
                                        2.0 * kRoundoff * (inner + 8.0 * chain) * longest_row);
    const double expected = double(product_M_.values[row]) + double(addends_M_.values[row]);
    const double gap = std::abs(double(result_M_.values[row]) - expected);
    const bool must_be_finite = longest_row < largest_of(args.c.dtype);
    if (std::isfinite(gap) ? gap <= bound : !must_be_finite) continue;
    alarm_ = fmt::format(
        "a product ({}, {} x {} of {}, sums over {}) is wrong: row {} times random signs is {:.9g} "
        "and not {:.9g}, and rounding explains {:.2g} of the difference at most",
        pass_of(args.form), args.c.rows, args.c.cols, name_of(args.c.dtype), inner_extent(args),
        row, result_M_.values[row], expected, bound);
  }
}

std::string ProductCheck::take_alarm() { return std::exchange(alarm_, {}); }

}  // namespace trireme
