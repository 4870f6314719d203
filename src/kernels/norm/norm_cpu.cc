#include "kernels/kernels_cpu.h"
#include "kernels/row_sums.h"

namespace trireme::TRIREME_ISA {
namespace {

// A second pass over a row reads it from the L1 cache.
template <typename T>
TRIREME_INLINE float mean_of(const T* x_C, int64_t cols) {
  float sum[1];
  sum_row(cols, sum, [&](int64_t c, auto lanes, F32x16* chain) TRIREME_INLINE_LAMBDA {
    chain[0] = chain[0] + load(x_C + c, lanes);
  });
  return sum[0] / float(cols);
}

// Returns the mean of (x - center)^2.
template <typename T>
TRIREME_INLINE float mean_square(const T* x_C, float center, int64_t cols) {
  float sum[1];
  sum_row(cols, sum, [&](int64_t c, auto lanes, F32x16* chain) TRIREME_INLINE_LAMBDA {
    const F32x16 d = keep_lanes(load(x_C + c, lanes) - broadcast(center), lanes, zeros());
    chain[0] = fma(d, d, chain[0]);
  });
  return sum[0] / float(cols);
}

// Converts a parameter to fp32 once for all rows, into one half of thread 0's workspace.
template <typename T>
const float* in_fp32(Stream& stream, int half, const TensorRef& param_C, int64_t cols,
                     float absent) {
  float* values = reinterpret_cast<float*>(stream.workspace(0)) + half * cols;
  const T* param = static_cast<const T*>(param_C.data);
  for_each_vector(cols, [&](int64_t c, auto lanes) TRIREME_INLINE_LAMBDA {
    store(values + c, param ? load(param + c, lanes) : broadcast(absent), lanes);
  });
  return values;
}

template <typename T>
void forward_rows(const NormForwardArgs& args, const float* gain_C, const float* bias_C,
                  int64_t begin, int64_t end) {
  const int64_t cols = args.x_TC.cols;
  float* mean_T = static_cast<float*>(args.mean_T.data);
  float* rstd_T = static_cast<float*>(args.rstd_T.data);
  const bool centered = args.kind == NormKind::Layer;
  for (int64_t t = begin; t < end; ++t) {
    const T* x_C = args.x_TC.row<T>(t);
    T* y_C = args.y_TC.row<T>(t);
    const float mean = centered ? mean_of(x_C, cols) : 0.0f;
    const float rstd = 1.0f / __builtin_sqrtf(mean_square(x_C, mean, cols) + args.eps);
    if (centered) mean_T[t] = mean;
    rstd_T[t] = rstd;
    for_each_vector(cols, [&](int64_t c, auto lanes) TRIREME_INLINE_LAMBDA {
      const F32x16 x_hat = (load(x_C + c, lanes) - broadcast(mean)) * broadcast(rstd);
      store(y_C + c, fma(x_hat, load(gain_C + c, lanes), load(bias_C + c, lanes)), lanes);
    });
  }
}

template <typename T>
void backward_input_rows(const NormBackwardInputArgs& args, const float* gain_C, int64_t begin,
                         int64_t end) {
  const int64_t cols = args.x_TC.cols;
  const bool centered = args.kind == NormKind::Layer;
  for (int64_t t = begin; t < end; ++t) {
    const T* x_C = args.x_TC.row<T>(t);
    const T* dy_C = args.dy_TC.row<T>(t);
    const T* dresidual_C = args.dresidual_TC ? args.dresidual_TC.row<T>(t) : nullptr;
    T* dx_C = args.dx_TC.row<T>(t);
    const F32x16 mean = broadcast(centered ? static_cast<float*>(args.mean_T.data)[t] : 0.0f);
    const F32x16 rstd = broadcast(static_cast<float*>(args.rstd_T.data)[t]);
    float sums[2];  // sums of g = gain dy and of g x_hat
    sum_row(cols, sums, [&](int64_t c, auto lanes, F32x16* chain) TRIREME_INLINE_LAMBDA {
      const F32x16 g = load(dy_C + c, lanes) * load(gain_C + c, lanes);
      chain[0] = chain[0] + g;
      chain[1] = fma(g, (load(x_C + c, lanes) - mean) * rstd, chain[1]);
    });
    const F32x16 mean_g = broadcast(centered ? sums[0] / float(cols) : 0.0f);
    const F32x16 mean_g_x_hat = broadcast(sums[1] / float(cols));
    for_each_vector(cols, [&](int64_t c, auto lanes) TRIREME_INLINE_LAMBDA {
      const F32x16 g = load(dy_C + c, lanes) * load(gain_C + c, lanes);
      const F32x16 x_hat = (load(x_C + c, lanes) - mean) * rstd;
      const F32x16 inner = fnma(x_hat, mean_g_x_hat, g - mean_g);
      const F32x16 dresidual = dresidual_C ? load(dresidual_C + c, lanes) : zeros();
      store(dx_C + c, fma(rstd, inner, dresidual), lanes);
    });
  }
}

// dgain_C and dbias_C are overwritten with the sums over the chunk's rows.
template <typename T>
void sum_chunk(const NormBackwardWeightArgs& args, const RowChunk& chunk, float* dgain_C,
               float* dbias_C) {
  const bool centered = args.kind == NormKind::Layer;
  for (int64_t t = chunk.begin; t < chunk.end; ++t) {
    const T* x_C = args.x_TC.row<T>(t) + chunk.first_col;
    const T* dy_C = args.dy_TC.row<T>(t) + chunk.first_col;
    const F32x16 mean = broadcast(centered ? static_cast<float*>(args.mean_T.data)[t] : 0.0f);
    const F32x16 rstd = broadcast(static_cast<float*>(args.rstd_T.data)[t]);
    const bool first = t == chunk.begin;
    for_each_vector(chunk.cols, [&](int64_t c, auto lanes) TRIREME_INLINE_LAMBDA {
      const F32x16 dy = load(dy_C + c, lanes);
      const F32x16 x_hat = (load(x_C + c, lanes) - mean) * rstd;
      const F32x16 dgain = first ? zeros() : load(dgain_C + c, lanes);
      const F32x16 dbias = first ? zeros() : load(dbias_C + c, lanes);
      store(dgain_C + c, fma(dy, x_hat, dgain), lanes);
      store(dbias_C + c, dbias + dy, lanes);
    });
  }
}

}  // namespace

void norm_forward(Stream& stream, const NormForwardArgs& args) {
  check_norm_forward(args);
  const int64_t cols = args.x_TC.cols;
  with_element(args.x_TC.dtype, [&]<typename T>(T) {
    const float* gain_C = in_fp32<T>(stream, 0, args.gain_C, cols, 1.0f);
    const float* bias_C = in_fp32<T>(stream, 1, args.bias_C, cols, 0.0f);
    for_each_row_tile(stream, args.x_TC.rows, cols, [&](int64_t begin, int64_t end, int) {
      forward_rows<T>(args, gain_C, bias_C, begin, end);
    });
  });
}

void norm_backward_input(Stream& stream, const NormBackwardInputArgs& args) {
  check_norm_backward_input(args);
  const int64_t cols = args.x_TC.cols;
  with_element(args.x_TC.dtype, [&]<typename T>(T) {
    const float* gain_C = in_fp32<T>(stream, 0, args.gain_C, cols, 1.0f);
    for_each_row_tile(stream, args.x_TC.rows, cols, [&](int64_t begin, int64_t end, int) {
      backward_input_rows<T>(args, gain_C, begin, end);
    });
  });
}

void norm_backward_weight(Stream& stream, const NormBackwardWeightArgs& args) {
  check_norm_backward_weight(args);
  with_state((args.dgain_C ? args.dgain_C : args.dbias_C).dtype, [&]<typename Sum>(Sum) {
    Sum* const sums_C[] = {static_cast<Sum*>(args.dgain_C.data),
                           static_cast<Sum*>(args.dbias_C.data)};
    with_element(args.x_TC.dtype, [&]<typename T>(T) {
      sum_rows(stream, args.x_TC.rows, args.x_TC.cols, args.write, sums_C,
               [&](const RowChunk& chunk, float* sums) {
                 sum_chunk<T>(args, chunk, sums, sums + chunk.cols);
               });
    });
  });
}

}  // namespace trireme::TRIREME_ISA
