#include <initializer_list>
#include <string>

#include "kernels/argument_checks.h"
#include "kernels/attention/attention.h"

namespace trireme {
namespace {

struct NamedMatrix {
  const char* name;
  const MatrixRef& matrix;
};

void check_shape(const AttentionShape& shape) {
  TRIREME_CHECK(shape.num_sequences >= 0 && shape.q_len >= 0 && shape.head_dim > 0 &&
                    shape.num_heads > 0 && shape.num_kv_heads > 0,
                "an attention extent is not positive");
  TRIREME_CHECK(!shape.causal || shape.kv_len >= shape.q_len, "queries are the last of the keys");
  TRIREME_CHECK(shape.head_dim <= 1024 && shape.out_dim() <= 1024,
                "a tile of wider heads has no room in the workspace");
  TRIREME_CHECK(shape.scale > 0.0f, "scores are scaled by a positive number");
  TRIREME_CHECK(shape.num_heads % shape.num_kv_heads == 0,
                std::to_string(shape.num_heads) + " heads cannot share " +
                    std::to_string(shape.num_kv_heads) + " kv heads evenly");
}

void check_matrices(std::initializer_list<NamedMatrix> matrices, int64_t rows, int64_t cols,
                    DType dtype) {
  for (const auto& [name, x] : matrices) {
    TRIREME_CHECK(x.rows == rows && x.cols == cols && x.stride >= cols && x.dtype == dtype,
                  std::string(name) + " should be [" + std::to_string(rows) + ", " +
                      std::to_string(cols) + "] " + std::string(name_of(dtype)) + ", is [" +
                      std::to_string(x.rows) + ", " + std::to_string(x.cols) + "] " +
                      std::string(name_of(x.dtype)));
  }
}

void check_statistic(const char* name, const TensorRef& x, const AttentionShape& shape) {
  TRIREME_CHECK(x.dtype == DType::F32 &&
                    x.num_elements() == shape.num_heads * shape.num_sequences * shape.q_len,
                std::string(name) + " has one fp32 for every head and query");
}

// First keys of a causal query lie before its last; a kernel relies on their order.
void check_window(const AttentionWindow& window, const AttentionShape& shape) {
  if (!window) return;
  check_tensor("the queries' first keys", window.first_T, shape.num_sequences * shape.q_len,
               DType::I32);
  const auto* first = static_cast<const int32_t*>(window.first_T.data);
  bool in_order = true, sees_one = true;
  for (int64_t row = 0; row < shape.num_sequences * shape.q_len; ++row) {
    const int64_t query = row % shape.q_len;
    in_order &= query == 0 || first[row - 1] <= first[row];
    sees_one &= !shape.causal || window.first_key(row) < shape.num_visible(query);
  }
  TRIREME_CHECK(in_order, "first keys do not decrease within a sequence");
  TRIREME_CHECK(sees_one, "every causal query sees a key");
}

}  // namespace

void check_attention(const AttentionForwardArgs& args) {
  const AttentionShape& shape = args.shape;
  check_shape(shape);
  const DType dtype = args.q_T_HD.dtype;
  TRIREME_CHECK(is_compute_dtype(dtype), "attention is fp32, bf16 or fp16");
  const int64_t queries = shape.num_sequences * shape.q_len;
  const int64_t keys = shape.num_sequences * shape.kv_len;
  check_matrices({{"q", args.q_T_HD}}, queries, shape.num_heads * shape.head_dim, dtype);
  check_matrices({{"out", args.out_T_HD}}, queries, shape.num_heads * shape.out_dim(), dtype);
  check_matrices({{"k", args.k_T_KD}}, keys, shape.num_kv_heads * shape.head_dim, dtype);
  check_matrices({{"v", args.v_T_KD}}, keys, shape.num_kv_heads * shape.out_dim(), dtype);
  if (args.lse_HT) check_statistic("lse", args.lse_HT, shape);
  if (args.max_H)
    check_tensor("the heads' largest logits", args.max_H, shape.num_heads, DType::F32);
  check_window(args.window, shape);
}

void check_attention(const AttentionBackwardArgs& args) {
  const AttentionShape& shape = args.shape;
  check_shape(shape);
  const DType dtype = args.q_T_HD.dtype;
  TRIREME_CHECK(is_compute_dtype(dtype), "attention is fp32, bf16 or fp16");
  const int64_t queries = shape.num_sequences * shape.q_len;
  const int64_t keys = shape.num_sequences * shape.kv_len;
  check_matrices({{"q", args.q_T_HD}, {"dq", args.dq_T_HD}}, queries,
                 shape.num_heads * shape.head_dim, dtype);
  check_matrices({{"out", args.out_T_HD}, {"dout", args.dout_T_HD}}, queries,
                 shape.num_heads * shape.out_dim(), dtype);
  check_matrices({{"k", args.k_T_KD}, {"dk", args.dk_T_KD}}, keys,
                 shape.num_kv_heads * shape.head_dim, dtype);
  check_matrices({{"v", args.v_T_KD}, {"dv", args.dv_T_KD}}, keys,
                 shape.num_kv_heads * shape.out_dim(), dtype);
  check_statistic("lse", args.lse_HT, shape);
  check_statistic("delta", args.delta_HT, shape);
  check_window(args.window, shape);
}

void check_attention(const AttentionMergeArgs& args) {
  const MatrixRef& out = args.out_T_HD;
  TRIREME_CHECK(args.num_heads > 0 && out.cols % args.num_heads == 0, "columns are heads x D");
  TRIREME_CHECK(is_compute_dtype(args.part_T_HD.dtype), "attention is fp32, bf16 or fp16");
  check_matrices({{"out", out}}, out.rows, out.cols, DType::F32);
  check_matrices({{"part", args.part_T_HD}}, out.rows, out.cols, args.part_T_HD.dtype);
  check_matrices({{"lse", args.lse_HT}, {"part's lse", args.part_lse_HT}}, args.num_heads, out.rows,
                 DType::F32);
}

int64_t attention_forward_flops(const AttentionShape& shape) {
  // Query i sees kv_len - q_len + i + 1 keys. q k^T takes 2 head_dim FLOPs per pair, and p v twice
  // the width of a head of values.
  const int64_t pairs = !shape.causal ? shape.q_len * shape.kv_len
                                      : shape.q_len * (shape.kv_len - shape.q_len) +
                                            shape.q_len * (shape.q_len + 1) / 2;
  return shape.num_sequences * shape.num_heads * pairs * 2 * (shape.head_dim + shape.out_dim());
}

}  // namespace trireme
