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
        args.positions_SC ? args.positions_SC.row<T>(args.position_of(t)) : nullptr;
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
  char* first = static_cast<char*>(x_RC.data);
  const int64_t element = size_of(x_RC.dtype);
  for_each_row_tile(stream, x_RC.rows, x_RC.cols, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      __builtin_memset(first + row * x_RC.stride * element, 0, size_t(x_RC.cols * element));
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
    add_row(dy_C, args.dpositions_SC.row<float>(args.position_of(t)) + begin, end - begin);
  }
}

// Equal tokens among at most kLinkedTokens, found with a hash table.
struct EqualTokens {
  int32_t next_T[kLinkedTokens];  // the next equal token, or kLinkedTokens
  bool is_first_T[kLinkedTokens];
  int32_t last_H[2 * kLinkedTokens];  // the last token so far of each slot, or -1

  void link(const int32_t* token_T, int64_t count) {
    __builtin_memset(last_H, 0xff, sizeof(last_H));
    for (int64_t t = 0; t < count; ++t) {
      uint32_t slot = uint32_t(token_T[t]) * 2654435761u >> 19;  // the upper 13 bits
      while (last_H[slot] >= 0 && token_T[last_H[slot]] != token_T[t]) {
        slot = (slot + 1) % uint32_t(2 * kLinkedTokens);
      }
      is_first_T[t] = last_H[slot] < 0;
      if (!is_first_T[t]) next_T[last_H[slot]] = int32_t(t);
      next_T[t] = int32_t(kLinkedTokens);
      last_H[slot] = int32_t(t);
    }
  }
};
static_assert(2 * kLinkedTokens == 1 << 13);
static_assert(sizeof(EqualTokens) <= size_t{kWorkspaceBytesPerThread});

// sum_C += the rows t, next_of(t), ... of dy, rounded once, of columns [begin, end).
template <typename T, typename NextOf>
TRIREME_INLINE void add_rows_once(const MatrixRef& dy_TC, int64_t t, NextOf next_of, bf16* sum_C,
                                  int64_t begin, int64_t end) {
  for_each_vector(end - begin, [&](int64_t c, auto lanes) TRIREME_INLINE_LAMBDA {
    F32x16 sum = load(sum_C + begin + c, lanes);
    for (int64_t row = t; row < dy_TC.rows; row = next_of(row)) {
      sum = sum + load(dy_TC.row<T>(row) + begin + c, lanes);
    }
    store(sum_C + begin + c, sum, lanes);
  });
}

// Adds dy_t to the row id_t - first_row of a table; ids are tokens or positions.
template <typename T>
void scatter_linked(Stream& stream, const TensorRef& ids_T, int64_t first_row,
                    const MatrixRef& all_dy_TC, const MatrixRef& dtable_RC) {
  EqualTokens& equal = *reinterpret_cast<EqualTokens*>(stream.workspace(0));
  const int64_t rows = all_dy_TC.rows;
  for (int64_t first = 0; first < rows; first += kLinkedTokens) {
    const int64_t count = rows - first < kLinkedTokens ? rows - first : kLinkedTokens;
    const int32_t* id_T = static_cast<const int32_t*>(ids_T.data) + first;
    const MatrixRef dy_TC = rows_of(all_dy_TC, first, count);
    equal.link(id_T, count);
    for_each_tile(stream, dy_TC.cols, kTileCols, [&](int64_t begin, int64_t end, int) {
      for (int64_t t = 0; t < count; ++t) {
        const int64_t row = id_T[t] - first_row;
        const bool is_here = row >= 0 && row < dtable_RC.rows;
        if (!is_here || !equal.is_first_T[t]) continue;
        const auto next = [&](int64_t u) TRIREME_INLINE_LAMBDA { return equal.next_T[u]; };
        add_rows_once<T>(dy_TC, t, next, dtable_RC.row<bf16>(row), begin, end);
      }
    });
  }
}

template <typename T>
void scatter_once(Stream& stream, const EmbeddingBackwardArgs& args) {
  const int64_t cols = args.dy_TC.cols, rows = args.dy_TC.rows;
  scatter_linked<T>(stream, args.tokens_T, args.range.first, args.dy_TC, args.dtable_VC);
  if (!args.dpositions_SC) return;
  if (args.position_T) {
    return scatter_linked<T>(stream, args.position_T, 0, args.dy_TC, args.dpositions_SC);
  }
  for_each_tile(stream, cols, kTileCols, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = 0; t < args.seq_len && t < rows; ++t) {
      const auto next = [&](int64_t u) TRIREME_INLINE_LAMBDA { return u + args.seq_len; };
      bf16* sum_C = args.dpositions_SC.row<bf16>(args.map.of(t));
      add_rows_once<T>(args.dy_TC, t, next, sum_C, begin, end);
    }
  });
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
    if (args.dtable_VC.dtype == DType::BF16) return scatter_once<T>(stream, args);
    for_each_tile(stream, cols, tiny ? cols : kTileCols,
                  [&](int64_t begin, int64_t end, int) { scatter_cols<T>(args, begin, end); });
  });
}

}  // namespace trireme::TRIREME_ISA
