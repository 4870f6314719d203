#include "calibrate/measure_attention.h"

#include "kernels/bench_tensors.h"

namespace trireme {
namespace {

Shape queries_of(const AttentionShape& shape) {
  return {shape.num_sequences * shape.q_len, shape.num_heads * shape.head_dim};
}
Shape keys_of(const AttentionShape& shape) {
  return {shape.num_sequences * shape.kv_len, shape.num_kv_heads * shape.head_dim};
}
Shape statistics_of(const AttentionShape& shape) {
  return {shape.num_heads, shape.num_sequences * shape.q_len};
}

}  // namespace

AttentionBench::AttentionBench(const AttentionShape& shape, DType dtype, ColdOperands& cold)
    : shape_(shape),
      dtype_(dtype),
      q_(varied(dtype, queries_of(shape))),
      k_(varied(dtype, keys_of(shape))),
      v_(varied(dtype, keys_of(shape))),
      dout_(varied(dtype, queries_of(shape))),
      dq_(dtype, queries_of(shape)),
      dk_(dtype, keys_of(shape)),
      dv_(dtype, keys_of(shape)),
      lse_(DType::F32, statistics_of(shape)),
      delta_(DType::F32, statistics_of(shape)),
      cold_(cold) {}

void AttentionBench::forward(const KernelTable& kernels, Stream& stream) {
  kernels.attention_forward(stream, {.shape = shape_,
                                     .q_T_HD = matrix(q_),
                                     .k_T_KD = matrix(k_),
                                     .v_T_KD = matrix(v_),
                                     .out_T_HD = matrix(cold_.next(dtype_, queries_of(shape_))),
                                     .lse_HT = lse_});
}

void AttentionBench::backward(const KernelTable& kernels, Stream& stream) {
  kernels.attention_backward(stream, {.shape = shape_,
                                      .q_T_HD = matrix(cold_.next(dtype_, queries_of(shape_))),
                                      .k_T_KD = matrix(cold_.next(dtype_, keys_of(shape_))),
                                      .v_T_KD = matrix(cold_.next(dtype_, keys_of(shape_))),
                                      .out_T_HD = matrix(cold_.next(dtype_, queries_of(shape_))),
                                      .dout_T_HD = matrix(dout_),
                                      .lse_HT = lse_,
                                      .delta_HT = delta_,
                                      .dq_T_HD = matrix(dq_),
                                      .dk_T_KD = matrix(dk_),
                                      .dv_T_KD = matrix(dv_)});
}

AttentionWork AttentionBench::work() const {
  return {.sequences = shape_.num_sequences,
          .heads = shape_.num_heads,
          .kv_heads = shape_.num_kv_heads,
          .queries = shape_.q_len,
          .keys = shape_.kv_len,
          .head_dim = shape_.head_dim};
}

}  // namespace trireme
