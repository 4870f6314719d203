#include "kernels/argument_checks.h"
#include "kernels/embedding/embedding.h"

namespace trireme {
namespace {

// Also checks that every token has a row; otherwise the kernel would access memory outside the
// table.
void check_tokens(const TensorRef& tokens_T, int64_t rows, const TokenRange& range,
                  int64_t table_rows) {
  const int64_t vocab_size = range.num_tokens > 0 ? range.num_tokens : table_rows;
  check_argument(range.first >= 0 && range.first + table_rows <= vocab_size,
                 "the table's rows lie inside the vocabulary");
  check_tensor("tokens", tokens_T, rows, DType::I32);
  const auto* token = static_cast<const int32_t*>(tokens_T.data);
  bool inside = true;
  for (int64_t t = 0; t < rows; ++t) inside &= token[t] >= 0 && token[t] < vocab_size;
  check_argument(inside, "every token lies in [0, vocab_size)");
}

// Returns the end of the positions that the rows have.
int64_t end_position(int64_t rows, int64_t seq_len, const PositionMap& map) {
  const int64_t count = rows < seq_len ? rows : seq_len;
  return count == 0 ? 0 : map.of(count - 1) + 1;
}

}  // namespace

void check_embedding_forward(const EmbeddingForwardArgs& args) {
  const MatrixRef& y_TC = args.y_TC;
  check_float("y", y_TC);
  check_matrix("table", args.table_VC, args.table_VC.rows, y_TC.cols, y_TC.dtype);
  check_tokens(args.tokens_T, y_TC.rows, args.range, args.table_VC.rows);
  if (!args.positions_SC) return;
  check_argument(args.seq_len > 0, "a sequence has at least one position");
  check_matrix("positions", args.positions_SC, args.positions_SC.rows, y_TC.cols, y_TC.dtype);
  if (args.position_T) {
    return check_positions(args.position_T, y_TC.rows, args.positions_SC.rows);
  }
  check_argument(end_position(y_TC.rows, args.seq_len, args.map) <= args.positions_SC.rows,
                 "the table of positions holds every row's position");
}

void check_embedding_backward(const EmbeddingBackwardArgs& args) {
  const MatrixRef& dy_TC = args.dy_TC;
  check_float("dy", dy_TC);
  check_state("dtable", args.dtable_VC, args.dtable_VC.rows, dy_TC.cols);
  check_tokens(args.tokens_T, dy_TC.rows, args.range, args.dtable_VC.rows);
  if (!args.dpositions_SC) return;
  check_argument(args.seq_len > 0, "a sequence has at least one position");
  check_matrix("dpositions", args.dpositions_SC, args.dpositions_SC.rows, dy_TC.cols,
               args.dtable_VC.dtype);
  if (args.position_T) {
    return check_positions(args.position_T, dy_TC.rows, args.dpositions_SC.rows);
  }
  check_argument(end_position(dy_TC.rows, args.seq_len, args.map) <= args.dpositions_SC.rows,
                 "the table of positions holds every row's position");
}

}  // namespace trireme
