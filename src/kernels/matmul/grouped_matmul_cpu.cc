#include "kernels/kernels_cpu.h"
#include "kernels/matmul/few_rows_product.h"
#include "kernels/matmul/product_of.h"

namespace trireme::TRIREME_ISA {
namespace {

// One tiling for all groups, chosen for a group of mean size. All threads together take the tiles
// of all groups.
struct GroupTiling {
  Tiling tiling;
  const GroupedMatmulArgs& args;
  bool is_by_rows;  // each group has its own rows of the result; else its own result

  int64_t row_blocks(int64_t rows) const {
    return is_by_rows ? (rows + tiling.tile_rows - 1) / tiling.tile_rows : tiling.num_row_blocks;
  }
  int64_t num_tiles(size_t g) const {
    const int32_t* begin_G = static_cast<const int32_t*>(args.begin_G.data);
    return row_blocks(begin_G[g + 1] - begin_G[g]) * tiling.num_col_blocks;
  }
};

template <typename P>
GroupTiling tiling_of(Stream& stream, const GroupedMatmulArgs& args, int64_t num_rows,
                      bool serial) {
  const bool is_by_rows = args.form != MatmulForm::TN;
  const int64_t groups = int64_t(args.w_G.size());
  const int64_t mean_rows = std::max<int64_t>(1, num_rows / groups);
  const int64_t k = is_by_rows ? args.x.cols : mean_rows;
  // The groups already give work to several threads.
  const int64_t threads = serial ? 1 : std::max<int64_t>(1, 2 * stream.team().size() / groups);
  return {choose_tiling({.rows = is_by_rows ? mean_rows : args.x.cols,
                         .cols = args.y.cols,
                         .steps = P::num_steps(k),
                         .panel_cols = kPanelCols,
                         .packs_a = !is_by_rows,
                         .widens_a = P::kWidensRows,
                         .num_threads = threads,
                         .group_rows = P::kUnitRows}),
          args, is_by_rows};
}

// True if the product of every group has few rows or none. Generation has such products of experts.
template <typename T>
bool are_products_of_few_rows(const GroupedMatmulArgs& args, int64_t num_rows) {
  for (size_t g = 0; g < args.w_G.size(); ++g) {
    if (!FewRowsProduct<T>::is_one(product_of(args, g), args.x.cols)) return false;
  }
  return fit_into_workspace(FewRowsProduct<T>::num_steps(num_rows, args.x.cols));
}

// All threads together take the tiles of all groups, whose rows lie in the workspace one group
// behind the other.
template <typename T>
void multiply_few_rows(Stream& stream, const GroupedMatmulArgs& args) {
  using Few = FewRowsProduct<T>;
  uint32_t* const steps = reinterpret_cast<uint32_t*>(stream.workspace(0));
  const int32_t* begin_G = static_cast<const int32_t*>(args.begin_G.data);
  const int64_t k = args.x.cols;
  const auto product_of_group = [&](size_t g) {
    return Few{product_of(args, g), k, steps + Few::num_steps(begin_G[g] - begin_G[0], k)};
  };
  const auto num_tiles_of = [&](size_t g) {
    return Few::num_tiles(begin_G[g + 1] - begin_G[g], args.y.cols, k);
  };
  int64_t num_tiles = 0;
  for (size_t g = 0; g < args.w_G.size(); ++g) {
    product_of_group(g).fill();
    num_tiles += num_tiles_of(g);
  }
  stream.team().parallel_for(num_tiles, [&](int64_t tile, int) {
    size_t g = 0;
    for (; tile >= num_tiles_of(g); ++g) tile -= num_tiles_of(g);
    product_of_group(g).multiply_tile(tile, stream.team().size());
  });
}

template <typename P>
void run(Stream& stream, const GroupedMatmulArgs& args) {
  using T = typename P::Element;
  const size_t groups = args.w_G.size();
  const int32_t* begin_G = static_cast<const int32_t*>(args.begin_G.data);
  const int64_t num_rows = begin_G[groups] - begin_G[0];
  const bool serial =
      2.0 * double(num_rows) * double(args.x.cols) * double(args.y.cols) < P::kSerialFlops;
  if (!serial && are_products_of_few_rows<T>(args, num_rows)) {
    return multiply_few_rows<T>(stream, args);
  }
  const GroupTiling cut = tiling_of<P>(stream, args, num_rows, serial);
  int64_t num_tiles = 0;
  for (size_t g = 0; g < groups; ++g) num_tiles += cut.num_tiles(g);
  run_tiles(stream, num_tiles, serial, [&](int64_t tile, int thread) {
    size_t g = 0;
    for (; tile >= cut.num_tiles(g); ++g) tile -= cut.num_tiles(g);
    const MatmulArgs group = rounded_once(product_of(args, g));
    Tiling tiling = cut.tiling;
    tiling.num_row_blocks = cut.row_blocks(group.c.rows);
    const P product{group, tiling, inner_extent(group), int64_t(g) * args.y.cols};
    product.multiply_tile(tile, product.workspace(stream, thread));
  });
}

}  // namespace

void grouped_matmul(Stream& stream, const GroupedMatmulArgs& args) {
  check_grouped_matmul(args);
  if (args.w_G.empty() || args.y.cols == 0) return;
  if (args.form == MatmulForm::TN && args.x.cols == 0) return;
  with_element(args.x.dtype, [&]<typename T>(T) { run<ProductOf<T>>(stream, args); });
}

}  // namespace trireme::TRIREME_ISA
