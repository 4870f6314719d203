#include <fmt/format.h>

#include "kernels/attention/attention_cases.h"
#include "kernels/bench.h"

namespace trireme {
namespace {

Tensor filled(DType dtype, int64_t rows, int64_t cols, int64_t step) {
  Tensor tensor(dtype, Shape{rows, cols});
  const TensorRef x = tensor;
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const float value = float(i * step % 101 - 50) / 40.0f;
    if (dtype == DType::F32) {
      x.as<float>()[i] = value;
    } else {
      x.as<bf16>()[i] = bf16(value);
    }
  }
  return tensor;
}

// Causal: query i meets kv_len - q_len + i + 1 keys. Forward has 2 products of 2 FLOPs per pair,
// backward 5.
BenchRow row_of(const std::string& name, DType dtype, double seconds, double flops) {
  BenchRow row;
  row.family = "attention";
  row.shape = name;
  row.dtype = dtype;
  row.seconds = seconds;
  row.flops = flops;
  return row;
}

void bench_shape(std::vector<BenchRow>& rows, const BenchContext& context,
                 const AttentionShape& shape, DType dtype) {
  const auto name_of_row = [&](const char* direction) {
    return std::string(direction) + " " + text_of(shape);
  };
  const char* const directions[] = {"F", "B", "FB"};
  if (std::none_of(std::begin(directions), std::end(directions), [&](const char* direction) {
        return context.wants("attention", name_of_row(direction), dtype);
      })) {
    return;
  }
  const int64_t q_rows = shape.num_sequences * shape.q_len;
  const int64_t kv_rows = shape.num_sequences * shape.kv_len;
  const int64_t q_cols = shape.num_heads * shape.head_dim;
  const int64_t kv_cols = shape.num_kv_heads * shape.head_dim;
  // q, k and v are columns of one matrix, as a fused projection writes them.
  Tensor qkv = filled(dtype, kv_rows, q_cols + 2 * kv_cols, 37);
  Tensor dqkv(dtype, Shape{kv_rows, q_cols + 2 * kv_cols});
  Tensor out(dtype, Shape{q_rows, q_cols});
  Tensor dout = filled(dtype, q_rows, q_cols, 29);
  Tensor lse(DType::F32, Shape{shape.num_heads, q_rows});
  Tensor delta(DType::F32, Shape{shape.num_heads, q_rows});
  const auto part = [&](const Tensor& x, int index) {
    const int64_t begin = index == 0 ? 0 : q_cols + (index - 1) * kv_cols;
    MatrixRef columns = cols_of(matrix(x), begin, index == 0 ? q_cols : kv_cols);
    if (index == 0) columns.rows = q_rows;
    return columns;
  };
  const AttentionForwardArgs forward{.shape = shape,
                                     .q_T_HD = part(qkv, 0),
                                     .k_T_KD = part(qkv, 1),
                                     .v_T_KD = part(qkv, 2),
                                     .out_T_HD = matrix(out),
                                     .lse_HT = lse};
  const AttentionBackwardArgs backward{.shape = shape,
                                       .q_T_HD = part(qkv, 0),
                                       .k_T_KD = part(qkv, 1),
                                       .v_T_KD = part(qkv, 2),
                                       .out_T_HD = matrix(out),
                                       .dout_T_HD = matrix(dout),
                                       .lse_HT = lse,
                                       .delta_HT = delta,
                                       .dq_T_HD = part(dqkv, 0),
                                       .dk_T_KD = part(dqkv, 1),
                                       .dv_T_KD = part(dqkv, 2)};
  const KernelTable& kernels = context.kernels;
  const double flops = double(attention_forward_flops(shape));
  const double forward_s =
      median_seconds([&] { kernels.attention_forward(context.stream, forward); });
  const bool decodes = shape.q_len < shape.kv_len;
  const double backward_s =
      decodes ? 0.0 : median_seconds([&] { kernels.attention_backward(context.stream, backward); });
  const auto add = [&](const char* direction, double seconds, double products) {
    const std::string name = name_of_row(direction);
    if (!context.wants("attention", name, dtype)) return;
    rows.push_back(row_of(name, dtype, seconds, products / 2.0 * flops));
    rows.back().formula =
        fmt::format("{:.0f} products of 2 FLOPs x heads x pairs x head size", products);
  };
  add("F", forward_s, 2);
  if (decodes) return;
  add("B", backward_s, 5);
  add("FB", forward_s + backward_s, 7);
}

}  // namespace

void bench_attention(std::vector<BenchRow>& rows, const BenchContext& context) {
  for (DType dtype : {DType::BF16, DType::F32}) {
    for (const AttentionShape& shape : training_attention_shapes()) {
      bench_shape(rows, context, shape, dtype);
    }
    for (const AttentionShape& shape : decoding_attention_shapes()) {
      bench_shape(rows, context, shape, dtype);
    }
  }
}

}  // namespace trireme
