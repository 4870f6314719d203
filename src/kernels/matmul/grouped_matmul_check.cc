#include "kernels/argument_checks.h"
#include "kernels/matmul/grouped_matmul.h"

namespace trireme {

void check_grouped_matmul(const GroupedMatmulArgs& args) {
  const size_t groups = args.w_G.size();
  check_tensor("begin", args.begin_G, int64_t(groups) + 1, DType::I32);
  check_argument(args.x.rows == args.y.rows, "x and y have the same rows");
  const int32_t* begin_G = static_cast<const int32_t*>(args.begin_G.data);
  bool rises = begin_G[0] >= 0 && begin_G[groups] <= args.x.rows;
  for (size_t g = 0; g < groups; ++g) rises &= begin_G[g] <= begin_G[g + 1];
  check_argument(rises, "groups lie one behind the other among the rows");
  for (size_t g = 0; g < groups; ++g) {
    const MatrixRef& w = args.w_G[g];
    check_matrix("w", w, args.w_G[0].rows, args.w_G[0].cols, args.w_G[0].dtype);
    check_matmul(product_of(args, g));
  }
}

}  // namespace trireme
