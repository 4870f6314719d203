#include "kernels/matmul/matrix_vector.h"
#include "kernels/ref_access.h"

namespace trireme {

void row_dots_ref(Stream&, const RowDotsArgs& args) {
  check_row_dots(args);
  for (int64_t m = 0; m < args.a_MK.rows; ++m) {
    double y = 0.0, squares = 0.0;
    for (int64_t k = 0; k < args.a_MK.cols; ++k) {
      const double a = read(args.a_MK, m, k);
      y += a * read(args.x_K, k);
      squares += a * a;
    }
    write(args.y_M, m, y);
    write(args.squares_M, m, squares);
  }
}

void row_combination_ref(Stream&, const RowCombinationArgs& args) {
  check_row_combination(args);
  for (int64_t k = 0; k < args.a_MK.cols; ++k) {
    double y = 0.0, squares = 0.0;
    for (int64_t m = 0; m < args.a_MK.rows; ++m) {
      const double a = read(args.a_MK, m, k);
      y += read(args.x_M, m) * a;
      squares += a * a;
    }
    write(args.y_K, k, y);
    write(args.squares_K, k, squares);
  }
}

}  // namespace trireme
