#include "kernels/kernels_cpu.h"
#include "kernels/matmul/product.h"

namespace trireme::TRIREME_ISA {
namespace {

template <typename T>
void run(Stream& stream, const MatmulArgs& args) {
  const int64_t k = inner_extent(args);
  const bool serial = 2.0 * double(args.c.rows) * double(args.c.cols) * double(k) < kSerialFlops;
  const Tiling tiling = choose_tiling(
      {args.c.rows, args.c.cols, num_steps_of(k, Product<T>::kElements), kPanelCols,
       args.form == MatmulForm::TN, Product<T>::kWidensRows, serial ? 1 : stream.team().size()});
  const Product<T> product{args, tiling, k};
  const auto multiply = [&](int64_t tile, int thread) {
    product.multiply_tile(tile, workspace_of(stream, thread, tiling.tile_cols, tiling.block_steps));
  };
  run_tiles(stream, tiling.num_row_blocks * tiling.num_col_blocks, serial, multiply);
}

}  // namespace

void matmul(Stream& stream, const MatmulArgs& args) {
  check_matmul(args);
  if (args.c.rows == 0 || args.c.cols == 0) return;
  const MatmulArgs once = rounded_once(args);
  with_element(args.a.dtype, [&]<typename T>(T) { run<T>(stream, once); });
}

}  // namespace trireme::TRIREME_ISA
