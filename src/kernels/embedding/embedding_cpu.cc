#include "kernels/kernels_cpu.h"
#include "kernels/tiles.h"

namespace trireme::TRIREME_ISA {
namespace {

template <typename T>
void look_up(const EmbeddingForwardArgs& args, int64_t begin, int64_t end) {
  const int32_t* token_T = static_cast<const int32_t*>(args.tokens_T.data);
  for (int64_t t = begin; t < end; ++t) {
    const int64_t row = token_T[t] - args.range.first;
    const bool is_here = row >= 0 && row < args.table_VC.rows;
    const T* row_C = is_here ? args.table_VC.row<T>(row) : nullptr;
    const T* position_C =
        args.positions_SC
            ? args.positions_SC.row<T>(args.first_position + args.map.of(t % args.seq_len))
            : nullptr;
    T* y_C = args.y_TC.row<T>(t);
    if (!row_C && !position_C) {
      __builtin_memset(static_cast<void*>(y_C), 0, size_t(args.y_TC.cols) * sizeof(T));
      continue;
    }
    if (!row_C || !position_C) {
      __builtin_memcpy(y_C, row_C ? row_C : position_C, size_t(args.y_TC.cols) * sizeof(T));
      continue;
    }
    for_each_vector(args.y_TC.cols, [&](int64_t c, auto lanes) TRIREME_INLINE_LAMBDA {
      store(y_C + c, load(row_C + c, lanes) + load(position_C + c, lanes), lanes);
    });
  }
}

TRIREME_INLINE void zero_rows(Stream& stream, const MatrixRef& x_RC) {
  for_each_row_tile(stream, x_RC.rows, x_RC.cols, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      __builtin_memset(x_RC.row<float>(row), 0, size_t(x_RC.cols) * sizeof(float));
    }
  });
}

template <typename T>
TRIREME_INLINE void add_row(const T* dy_C, float* sum_C, int64_t cols) {
  for_each_vector(cols, [&](int64_t c, auto lanes) TRIREME_INLINE_LAMBDA {
    store(sum_C + c, load(sum_C + c, lanes) + load(dy_C + c, lanes), lanes);
  });
}

// Each thread has its own columns, so that every sum takes its tokens in order.
constexpr int64_t kTileCols = 128;
constexpr int64_t kSerialElements = kTileElements;

template <typename T>
void scatter_cols(const EmbeddingBackwardArgs& args, int64_t begin, int64_t end) {
  const int32_t* token_T = static_cast<const int32_t*>(args.tokens_T.data);
  for (int64_t t = 0; t < args.dy_TC.rows; ++t) {
    const T* dy_C = args.dy_TC.row<T>(t) + begin;
    const int64_t row = token_T[t] - args.range.first;
    if (row >= 0 && row < args.dtable_VC.rows) {
      add_row(dy_C, args.dtable_VC.row<float>(row) + begin, end - begin);
    }
    if (!args.dpositions_SC) continue;
    add_row(dy_C, args.dpositions_SC.row<float>(args.map.of(t % args.seq_len)) + begin,
            end - begin);
  }
}

}  // namespace

void embedding_forward(Stream& stream, const EmbeddingForwardArgs& args) {
  check_embedding_forward(args);
  with_element(args.y_TC.dtype, [&]<typename T>(T) {
    for_each_row_tile(stream, args.y_TC.rows, args.y_TC.cols,
                      [&](int64_t begin, int64_t end, int) { look_up<T>(args, begin, end); });
  });
}

void embedding_backward(Stream& stream, const EmbeddingBackwardArgs& args) {
  check_embedding_backward(args);
  if (args.write == Write::Overwrite) {
    zero_rows(stream, args.dtable_VC);
    if (args.dpositions_SC) zero_rows(stream, args.dpositions_SC);
  }
  const int64_t cols = args.dy_TC.cols;
  const bool tiny = args.dy_TC.rows * cols < kSerialElements;
  with_element(args.dy_TC.dtype, [&]<typename T>(T) {
    for_each_tile(stream, cols, tiny ? cols : kTileCols,
                  [&](int64_t begin, int64_t end, int) { scatter_cols<T>(args, begin, end); });
  });
}

}  // namespace trireme::TRIREME_ISA
