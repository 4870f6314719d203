#include <algorithm>

#include "kernels/matmul/matmul.h"
#include "kernels/matmul/row_access.h"

namespace trireme::TRIREME_ISA {
namespace {

// Rows are summed in chunks, then the sums of the chunks in order: shorter chains that depend only
// on T.
constexpr int64_t kChunkRows = 64;
constexpr int64_t kTileVectors = 4;
constexpr int64_t kTileCols = kTileVectors * kLanes;
constexpr int64_t kSerialElements = 65536;

template <typename T, typename Sum>
void sum_columns(const ColumnSumArgs& args, int64_t tile) {
  const MatrixRef& dy_TN = args.dy_TN;
  const int64_t first = tile * kTileCols;
  Sum* sum_N = static_cast<Sum*>(args.sum_N.data);
  for (int64_t col = first; col < std::min(first + kTileCols, dy_TN.cols); col += kLanes) {
    const int64_t valid = dy_TN.cols - col;
    const bool accumulate = args.write == Write::Accumulate;
    F32x16 total = accumulate ? load_row(sum_N + col, valid) : zeros();
    for (int64_t begin = 0; begin < dy_TN.rows; begin += kChunkRows) {
      const int64_t end = std::min(begin + kChunkRows, dy_TN.rows);
      F32x16 even = zeros();
      F32x16 odd = zeros();
      int64_t row = begin;
      for (; row + 1 < end; row += 2) {
        even = even + load_row(dy_TN.row<const T>(row) + col, valid);
        odd = odd + load_row(dy_TN.row<const T>(row + 1) + col, valid);
      }
      if (row < end) even = even + load_row(dy_TN.row<const T>(row) + col, valid);
      total = total + (even + odd);
    }
    store_row(sum_N + col, total, valid);
  }
}

}  // namespace

void column_sum(Stream& stream, const ColumnSumArgs& args) {
  check_column_sum(args);
  const auto sum_tile = [&](int64_t tile, int) {
    with_element(args.dy_TN.dtype, [&]<typename T>(T) {
      with_state(args.sum_N.dtype, [&]<typename Sum>(Sum) { sum_columns<T, Sum>(args, tile); });
    });
  };
  const int64_t num_tiles = (args.dy_TN.cols + kTileCols - 1) / kTileCols;
  if (args.dy_TN.rows * args.dy_TN.cols >= kSerialElements) {
    return stream.team().parallel_for(num_tiles, sum_tile);
  }
  for (int64_t tile = 0; tile < num_tiles; ++tile) sum_tile(tile, 0);
}

}  // namespace trireme::TRIREME_ISA
