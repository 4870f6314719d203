#include "kernels/matmul/grouped_matmul.h"

namespace trireme {

void grouped_matmul_ref(Stream& stream, const GroupedMatmulArgs& args) {
  check_grouped_matmul(args);
  for (size_t g = 0; g < args.w_G.size(); ++g) matmul_ref(stream, product_of(args, g));
}

}  // namespace trireme
