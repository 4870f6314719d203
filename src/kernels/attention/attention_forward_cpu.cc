#include <cmath>

#include "kernels/attention/forward_unit.h"

namespace trireme::TRIREME_ISA {
namespace {

constexpr double kSerialFlops = 4e5;
constexpr int64_t kBlockRows = 384;  // rows that share the packing of a tile of keys

template <typename T>
void run(Stream& stream, const AttentionForwardArgs& args) {
  const AttentionShape& shape = args.shape;
  const int64_t heads_per_kv = shape.num_heads / shape.num_kv_heads;
  const int64_t queries = kBlockRows / heads_per_kv / kGroupRows * kGroupRows;
  const Forward<T> forward{args, shape, std::max(queries, kGroupRows)};
  const auto run_unit = [&](int64_t unit, int thread) {
    forward.run_unit(unit, stream.workspace(thread));
  };
  if (double(attention_forward_flops(shape)) >= kSerialFlops) {
    return stream.team().parallel_for(forward.num_units(), run_unit);
  }
  for (int64_t unit = 0; unit < forward.num_units(); ++unit) run_unit(unit, 0);
}

template <typename T>
void merge_row(const AttentionMergeArgs& args, int64_t head, int64_t t) {
  const int64_t head_dim = args.out_T_HD.cols / args.num_heads;
  float& lse = args.lse_HT.row<float>(head)[t];
  const float part_lse = args.part_lse_HT.row<float>(head)[t];
  const float greatest = lse > part_lse ? lse : part_lse;
  const float weight = ::expf(lse - greatest), part_weight = ::expf(part_lse - greatest);
  const float sum = weight + part_weight;
  const F32x16 keep = broadcast(weight / sum), take = broadcast(part_weight / sum);
  const T* part = args.part_T_HD.row<const T>(t) + head * head_dim;
  float* out = args.out_T_HD.row<float>(t) + head * head_dim;
  for_each_vector(head_dim, [&](int64_t d, auto lanes) TRIREME_INLINE_LAMBDA {
    store(out + d, fma(load(part + d, lanes), take, load(out + d, lanes) * keep), lanes);
  });
  lse = greatest + ::logf(sum);
}

}  // namespace

void attention_merge(Stream& stream, const AttentionMergeArgs& args) {
  check_attention(args);
  const int64_t rows = args.out_T_HD.rows;
  constexpr int64_t kRows = 64;
  with_element(args.part_T_HD.dtype, [&]<typename T>(T) {
    stream.team().parallel_for(num_steps_of(rows, kRows), [&](int64_t tile, int) {
      const int64_t end = std::min(rows, (tile + 1) * kRows);
      for (int64_t t = tile * kRows; t < end; ++t) {
        for (int64_t head = 0; head < args.num_heads; ++head) merge_row<T>(args, head, t);
      }
    });
  });
}

void attention_forward(Stream& stream, const AttentionForwardArgs& args) {
  check_attention(args);
  with_element(args.q_T_HD.dtype, [&]<typename T>(T) { run<T>(stream, args); });
}

}  // namespace trireme::TRIREME_ISA
