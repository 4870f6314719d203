#include "kernels/bench_tensors.h"
#include "kernels/rope/rope_cases.h"

namespace trireme {

void bench_rope(std::vector<BenchRow>& rows, const BenchContext& context) {
  const RopeShape& s = kRopeBenchShape;
  const int64_t cols = s.num_heads * s.head_dim;
  Tensor cos(DType::F32, {s.seq_len, s.head_dim / 2}), sin(DType::F32, {s.seq_len, s.head_dim / 2});
  for (int64_t i = 0; i < cos.ref().num_elements(); ++i) {  // a rotation with cos 4/5 and sin 3/5
    cos.ref().as<float>()[i] = 0.8f;
    sin.ref().as<float>()[i] = 0.6f;
  }
  for (DType dtype : {DType::BF16, DType::F32}) {
    Tensor x = varied(dtype, {s.rows, cols});
    const RopeArgs args{.x_T_HD = matrix(x),
                        .head_dim = s.head_dim,
                        .cos_SD2 = cos,
                        .sin_SD2 = sin,
                        .seq_len = s.seq_len};
    add_bandwidth_row(rows, context, "rope", extents(s.rows, cols), dtype,
                      {2.0 * double(s.rows * cols * size_of(dtype)), "read and write x"},
                      [&] { context.kernels.rope(context.stream, args); });
  }
}

}  // namespace trireme
