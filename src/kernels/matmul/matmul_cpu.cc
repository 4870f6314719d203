#include "kernels/kernels_cpu.h"
#include "kernels/matmul/few_rows_product.h"
#include "kernels/matmul/product_of.h"

namespace trireme::TRIREME_ISA {
namespace {

template <typename T>
void multiply_few_rows(Stream& stream, const MatmulArgs& args, int64_t k) {
  const FewRowsProduct<T> product{args, k, reinterpret_cast<uint32_t*>(stream.workspace(0))};
  product.fill();
  stream.team().parallel_for(
      product.num_tiles(args.c.rows, args.c.cols, k),
      [&](int64_t tile, int) { product.multiply_tile(tile, stream.team().size()); });
}

template <typename P>
void run(Stream& stream, const MatmulArgs& args) {
  using T = typename P::Element;
  const int64_t k = inner_extent(args);
  const bool serial = 2.0 * double(args.c.rows) * double(args.c.cols) * double(k) < P::kSerialFlops;
  if ((args.c.rows == 1 || !serial) && FewRowsProduct<T>::is_one(args, k) &&
      fit_into_workspace(FewRowsProduct<T>::num_steps(args.c.rows, k))) {
    return multiply_few_rows<T>(stream, args, k);
  }
  const Tiling tiling = choose_tiling({.rows = args.c.rows,
                                       .cols = args.c.cols,
                                       .steps = P::num_steps(k),
                                       .panel_cols = kPanelCols,
                                       .packs_a = args.form == MatmulForm::TN,
                                       .widens_a = P::kWidensRows,
                                       .num_threads = serial ? 1 : stream.team().size(),
                                       .group_rows = P::kUnitRows});
  const P product{args, tiling, k};
  const auto multiply = [&](int64_t tile, int thread) {
    product.multiply_tile(tile, product.workspace(stream, thread));
  };
  run_tiles(stream, tiling.num_row_blocks * tiling.num_col_blocks, serial, multiply);
}

}  // namespace

void matmul(Stream& stream, const MatmulArgs& args) {
  check_matmul(args);
  if (args.c.rows == 0 || args.c.cols == 0) return;
  const MatmulArgs once = rounded_once(args);
  with_element(args.a.dtype, [&]<typename T>(T) { run<ProductOf<T>>(stream, once); });
}

}  // namespace trireme::TRIREME_ISA
