#include <vector>

#include "kernels/embedding/embedding.h"
#include "kernels/ref_access.h"

namespace trireme {
namespace {

// dtable_RC (+)= the rows of dy. Each is added to the row that row_of(t) returns, if there is one.
template <typename RowOf>
void scatter(const MatrixRef& dy_TC, const MatrixRef& dtable_RC, Write mode, RowOf row_of) {
  std::vector<double> sum_RC(dtable_RC.rows * dtable_RC.cols, 0.0);
  for (int64_t t = 0; t < dy_TC.rows; ++t) {
    const int64_t row = row_of(t);
    if (row < 0 || row >= dtable_RC.rows) continue;
    for (int64_t c = 0; c < dy_TC.cols; ++c) {
      sum_RC[row * dtable_RC.cols + c] += read(dy_TC, t, c);
    }
  }
  for (int64_t r = 0; r < dtable_RC.rows; ++r) {
    for (int64_t c = 0; c < dtable_RC.cols; ++c) {
      const double before = mode == Write::Accumulate ? read(dtable_RC, r, c) : 0.0;
      write(dtable_RC, r, c, before + sum_RC[r * dtable_RC.cols + c]);
    }
  }
}

}  // namespace

void embedding_forward_ref(Stream&, const EmbeddingForwardArgs& args) {
  check_embedding_forward(args);
  for (int64_t t = 0; t < args.y_TC.rows; ++t) {
    const int64_t row = args.tokens_T.as<int32_t>()[t] - args.range.first;
    const bool is_here = row >= 0 && row < args.table_VC.rows;
    for (int64_t c = 0; c < args.y_TC.cols; ++c) {
      double y = is_here ? read(args.table_VC, row, c) : 0.0;
      if (args.positions_SC) {
        y += read(args.positions_SC, args.position_of(t), c);
      }
      write(args.y_TC, t, c, y);
    }
  }
}

void embedding_backward_ref(Stream&, const EmbeddingBackwardArgs& args) {
  check_embedding_backward(args);
  const int32_t* token_T = args.tokens_T.as<int32_t>();
  scatter(args.dy_TC, args.dtable_VC, args.write,
          [&](int64_t t) { return token_T[t] - args.range.first; });
  if (!args.dpositions_SC) return;
  scatter(args.dy_TC, args.dpositions_SC, args.write,
          [&](int64_t t) { return args.position_of(t); });
}

}  // namespace trireme
