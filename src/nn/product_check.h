#pragma once

#include <string>
#include <vector>

#include "kernels/kernel_table.h"

namespace trireme {

// The products of a matrix with a vector, and the squared norms of its rows or columns.
struct VectorSums {
  std::vector<float> values, squares;
};

// Checks products while a step makes them. For a vector r of random signs, c r is a (b r) plus the
// addends times r, except for rounding (Freivalds 1977). This reads every operand once more, so it
// takes a fraction of the product's time. It finds a core that always computes in the same wrong
// way, which computing twice does not find.
//
// The bound of a row i of c = a b, with K terms in each sum, is
//   9 (u min(|c_i|, L_i) + 2^-23 (K + 8 D) L_i),   L_i = |a_i| |b| + |addends_i|,
// where u is the unit roundoff of c's dtype, |b| the Frobenius norm, and D the longest chain of
// adds in the check itself. A right row is not longer than L_i. Errors of single elements get
// random signs, so by Hoeffding's inequality a right row is beyond the bound with a probability
// below 1e-17. Norms are raised by 2^-63 for each number, because the square of a tiny number is
// zero, and u |c_i| by what rounding changes near zero. Rows for which L_i is not finite are not
// checked. If L_i says that a row cannot overflow, it is wrong if it is not finite.
class ProductCheck {
 public:
  explicit ProductCheck(uint64_t seed) : seed_(seed) {}

  // Computes the product and checks it. Memory grows to the longest extents that it meets.
  void multiply(Stream& stream, const KernelTable& kernels, const MatmulArgs& args);

  // Describes the first wrong product since the last call; "": there was none.
  std::string take_alarm();
  int64_t num_products() const { return num_products_; }
  double seconds() const { return double(spent_ns_) * 1e-9; }  // of the checks, without products

 private:
  void draw_signs(int64_t count);
  void sum_addends(Stream& stream, const KernelTable& kernels, const MatmulArgs& args);
  void compare(const MatmulArgs& args);

  uint64_t seed_;
  std::vector<float> signs_N_;
  VectorSums addends_M_;  // (residual and bias and what c held) r
  VectorSums bias_, b_, product_M_, result_M_;
  int64_t num_products_ = 0;
  int64_t spent_ns_ = 0;
  std::string alarm_;
};

}  // namespace trireme
