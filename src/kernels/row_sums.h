#pragma once

#include "kernels/tiles.h"
#include "kernels/write.h"

// Sums over the rows of a matrix, as gradients of parameters need them. Rows are summed in at most
// kMaxChunks chunks whose borders depend on the number of rows alone, and then the chunks in order.
// So neither the number of threads nor the number of columns changes a bit.
namespace trireme::TRIREME_ISA {

inline constexpr int64_t kMaxChunks = 32;
inline constexpr int64_t kMinChunkRows = 32;
inline constexpr int64_t kBlockCols = 8192;  // two sums of 32 chunks fit into the workspace

// Rows [begin, end) of the columns from first_col on.
struct RowChunk {
  int64_t begin;
  int64_t end;
  int64_t first_col;
  int64_t cols;
};

TRIREME_INLINE int64_t rows_per_chunk(int64_t rows) {
  const int64_t even = (rows + kMaxChunks - 1) / kMaxChunks;
  return even < kMinChunkRows ? kMinChunkRows : even;
}

// sum_C (+)= the chunks' sums, in their order.
template <typename Sum>
TRIREME_INLINE void combine_chunks(const float* chunks, int64_t num_chunks, int64_t chunk_stride,
                                   int64_t cols, Write write, Sum* sum_C) {
  for_each_vector(cols, [&](int64_t c, auto lanes) TRIREME_INLINE_LAMBDA {
    F32x16 sum = zeros();
    for (int64_t chunk = 0; chunk < num_chunks; ++chunk) {
      sum = sum + load(chunks + chunk * chunk_stride + c, lanes);
    }
    store(sum_C + c, write == Write::Accumulate ? load(sum_C + c, lanes) + sum : sum, lanes);
  });
}

// sum_C (+)= a sum over `rows` rows, for each of sums_C that is not null. sum_chunk(chunk, sums)
// overwrites kSums vectors of chunk.cols elements, one after the other, with the chunk's sums. Sums
// of type Sum, float or bf16, are rounded once.
template <int kSums, typename Sum, typename SumChunk>
TRIREME_INLINE void sum_rows(Stream& stream, int64_t rows, int64_t cols, Write write,
                             Sum* const (&sums_C)[kSums], SumChunk&& sum_chunk) {
  static_assert(kSums * kMaxChunks * kBlockCols * sizeof(float) <=
                size_t{kWorkspaceBytesPerThread});
  const int64_t chunk_rows = rows_per_chunk(rows);
  const int64_t num_chunks = (rows + chunk_rows - 1) / chunk_rows;
  float* chunks = reinterpret_cast<float*>(stream.workspace(0));
  for (int64_t first_col = 0; first_col < cols; first_col += kBlockCols) {
    const int64_t left = cols - first_col;
    const int64_t block_cols = left < kBlockCols ? left : kBlockCols;
    const int64_t chunk_stride = kSums * block_cols;
    for_each_tile(stream, rows, chunk_rows, [&](int64_t begin, int64_t end, int) {
      sum_chunk(RowChunk{begin, end, first_col, block_cols},
                chunks + begin / chunk_rows * chunk_stride);
    });
    for (int k = 0; k < kSums; ++k) {
      if (!sums_C[k]) continue;
      combine_chunks(chunks + k * block_cols, num_chunks, chunk_stride, block_cols, write,
                     sums_C[k] + first_col);
    }
  }
}

}  // namespace trireme::TRIREME_ISA
