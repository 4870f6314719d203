#include "kernels/argument_checks.h"
#include "kernels/dropout/dropout.h"

namespace trireme {

void check_dropout(const DropoutArgs& args) {
  const MatrixRef& x_TC = args.x_TC;
  check_float("x", x_TC);
  check_if_present("residual", args.residual_TC, x_TC.rows, x_TC.cols, x_TC.dtype);
  check_matrix("y", args.y_TC, x_TC.rows, x_TC.cols, x_TC.dtype);
  check_argument(args.probability >= 0.0f && args.probability < 1.0f,
                 "a dropout probability lies in [0, 1)");
  check_argument(args.rows_per_sample > 0, "a sample has at least one row");
  check_argument(args.first_column >= 0 && args.first_column + x_TC.cols <= args.columns_of_row(),
                 "the columns of a part lie among all columns");
}

}  // namespace trireme
