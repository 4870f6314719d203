#pragma once

#include "base/philox.h"
#include "device/stream.h"
#include "kernels/position_map.h"
#include "tensor/matrix.h"

namespace trireme {

// Causal attention over packed sequences with an online softmax, so no seq x seq matrix is stored.
// Legend: T rows = num_sequences * q_len (queries) or * kv_len (keys), H heads, K kv heads (H is a
// multiple of K; head h reads kv head h / (H/K)), D head_dim. If causal, query i of a sequence sees
// the keys 0 .. kv_len - q_len + i; otherwise it sees all. All matrices have one dtype (fp32, bf16
// or fp16); columns are heads x D. Values and outputs may have another width of a head.
struct AttentionShape {
  int64_t num_sequences = 0;
  int64_t q_len = 0;
  int64_t kv_len = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  float scale = 0.0f;  // multiplies q k^T, usually 1 / sqrt(head_dim)
  bool causal = true;
  int64_t value_dim = 0;  // of values and outputs; 0: head_dim

  int64_t out_dim() const { return value_dim > 0 ? value_dim : head_dim; }
  int64_t num_visible(int64_t query) const { return causal ? kv_len - q_len + query + 1 : kv_len; }
};

// The element (head, query, key) of global sample s is kept if uniform(philox(key, {query << 32 |
// key, s << 16 | head})) >= probability, and is then divided by 1 - probability. Query and key are
// positions in the sequence; head is global. 0 means no dropout.
struct AttentionDropout {
  float probability = 0.0f;
  RngKey key;
  uint64_t first_sample = 0;  // global number of the first sequence
  uint64_t first_head = 0;    // global number of the first head
  PositionMap queries;        // for query i: the position of index kv_len - q_len + i
  PositionMap keys;
};

// A lower bound of the keys that a query sees, beside the upper bound of causal attention: of its
// document, where a sequence holds several, or of a sliding window. Tiles of keys that no query of
// a block sees are skipped.
struct AttentionWindow {
  // int32 [T]: the position in the sequence of every query's first key; never decreases within a
  // sequence. Absent: the first key of the sequence. A causal query sees a key at least; another
  // one that sees none gets out = 0 and lse = -inf.
  TensorRef first_T;
  PositionMap keys;  // the position of a key's index

  explicit operator bool() const { return bool(first_T); }
  // The index of the first key that a query sees; `row` of T.
  int64_t first_key(int64_t row) const {
    const int64_t index = keys.first_from(static_cast<const int32_t*>(first_T.data)[row]);
    return index < 0 ? 0 : index;
  }
};

struct AttentionForwardArgs {
  AttentionShape shape;
  AttentionDropout dropout;
  MatrixRef q_T_HD;
  MatrixRef k_T_KD;
  MatrixRef v_T_KD;
  MatrixRef out_T_HD;  // written
  TensorRef lse_HT;    // fp32, written: log-sum-exp of the scaled scores; absent: not computed
  AttentionWindow window;
  // fp32 [H]: raised to the largest scaled score that a query of the head sees; absent: not
  // computed. The maximum of several calls is exact, in any order.
  TensorRef max_H = {};
};
void attention_forward_ref(Stream& stream, const AttentionForwardArgs& args);

struct AttentionBackwardArgs {
  AttentionShape shape;
  AttentionDropout dropout;
  MatrixRef q_T_HD, k_T_KD, v_T_KD, out_T_HD, dout_T_HD;
  TensorRef lse_HT;
  TensorRef delta_HT;                   // fp32 scratch with the shape of lse: rowsum(dout * out)
  MatrixRef dq_T_HD, dk_T_KD, dv_T_KD;  // written
  AttentionWindow window;
};
void attention_backward_ref(Stream& stream, const AttentionBackwardArgs& args);

// Merges attention over two sets of keys: out and lse become those over both sets.
struct AttentionMergeArgs {
  int64_t num_heads = 0;
  MatrixRef part_T_HD;  // fp32, bf16 or fp16
  MatrixRef part_lse_HT;
  MatrixRef out_T_HD;  // fp32, read and written
  MatrixRef lse_HT;    // fp32, read and written; -inf: no key so far
};
void attention_merge_ref(Stream& stream, const AttentionMergeArgs& args);

// These throw ContractError if shapes or dtypes do not match; every implementation calls them
// first.
void check_attention(const AttentionForwardArgs& args);
void check_attention(const AttentionBackwardArgs& args);
void check_attention(const AttentionMergeArgs& args);

// FLOPs of the forward pass, counted causally and without a window.
int64_t attention_forward_flops(const AttentionShape& shape);

}  // namespace trireme
