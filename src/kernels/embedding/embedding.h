#pragma once

#include "device/stream.h"
#include "kernels/position_map.h"
#include "kernels/write.h"
#include "tensor/matrix.h"

namespace trireme {

// The rows of the vocabulary's table on this rank: first .. first + V - 1 of `num_tokens`.
struct TokenRange {
  int64_t first = 0;
  int64_t num_tokens = 0;  // 0: this rank has all rows
};

// y_t = table[token_t - first] + positions[map(t mod seq_len)], or positions[position_t], rounded
// once. If this rank does not have the token's row, the row counts as zeros.
struct EmbeddingForwardArgs {
  TensorRef tokens_T;      // int32, each in [0, num_tokens)
  MatrixRef table_VC;      // fp32, bf16 or fp16
  MatrixRef positions_SC;  // absent: no learned positions
  int64_t seq_len = 0;
  MatrixRef y_TC;  // written, of the table's dtype
  TokenRange range;
  PositionMap map;
  TensorRef position_T = {};  // int32; absent: as above

  int64_t position_of(int64_t t) const {
    return position_T ? static_cast<const int32_t*>(position_T.data)[t] : map.of(t % seq_len);
  }
};
void embedding_forward_ref(Stream& stream, const EmbeddingForwardArgs& args);
void check_embedding_forward(const EmbeddingForwardArgs& args);  // throws ContractError

inline constexpr int64_t kLinkedTokens = 4096;

// Adds dy_t to the rows of the tables in the order of t, whatever the number of threads. Tokens
// whose row is on another rank are not added to `dtable`. Overwrite sets the tables to zero first.
// In tables of bf16, equal tokens are summed in fp32 and rounded once for every kLinkedTokens
// tokens of the call; so are equal positions of position_T, and others once.
struct EmbeddingBackwardArgs {
  TensorRef tokens_T;       // int32
  MatrixRef dy_TC;          // fp32, bf16 or fp16
  MatrixRef dtable_VC;      // fp32 or bf16; without rows: not needed
  MatrixRef dpositions_SC;  // of the dtype of dtable; absent: no learned positions
  int64_t seq_len = 0;
  Write write = Write::Overwrite;
  TokenRange range;
  PositionMap map;
  TensorRef position_T = {};  // int32; absent: map(t mod seq_len)

  int64_t position_of(int64_t t) const {
    return position_T ? static_cast<const int32_t*>(position_T.data)[t] : map.of(t % seq_len);
  }
};
void embedding_backward_ref(Stream& stream, const EmbeddingBackwardArgs& args);
void check_embedding_backward(const EmbeddingBackwardArgs& args);  // throws ContractError

}  // namespace trireme
