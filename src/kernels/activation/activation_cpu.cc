#include "kernels/fp32_math.h"
#include "kernels/kernels_cpu.h"
#include "kernels/tiles.h"

namespace trireme::TRIREME_ISA {
namespace {

// 0.5 (1 + tanh(u)) = sigmoid(2 u) needs one exponential and has no cancellation for negative x. 2
// u = x (kInner + kInnerCubic x^2).
constexpr float kInner = 1.59576912f;         // 2 sqrt(2 / pi)
constexpr float kInnerCubic = 0.0713548163f;  // 0.044715 kInner

TRIREME_INLINE F32x16 tanh_gate(F32x16 x) {
  return sigmoid_f32(x * fma(x * x, broadcast(kInnerCubic), broadcast(kInner)));
}

template <Activation kKind>
TRIREME_INLINE F32x16 value_of(F32x16 x) {
  if constexpr (kKind == Activation::GeluTanh) return x * tanh_gate(x);
  if constexpr (kKind == Activation::GeluErf) return x * normal_cdf_f32(x);
  const F32x16 positive = max(zeros(), x);
  if constexpr (kKind == Activation::Relu2) return positive * positive;
  return positive;
}

template <Activation kKind>
TRIREME_INLINE F32x16 times_slope(F32x16 dy, F32x16 x) {
  if constexpr (kKind == Activation::GeluTanh) {
    const F32x16 s = tanh_gate(x);
    const F32x16 inner_slope = fma(x * x, broadcast(3.0f * kInnerCubic), broadcast(kInner));
    return dy * fma(x * s * (broadcast(1.0f) - s), inner_slope, s);
  }
  if constexpr (kKind == Activation::GeluErf) {
    const F32x16 density = broadcast(0.398942280f) * exp_f32(x * x * broadcast(-0.5f));
    return dy * fma(x, density, normal_cdf_f32(x));
  }
  if constexpr (kKind == Activation::Relu2) {
    const F32x16 positive = max(zeros(), x);
    return dy * (positive + positive);
  }
  return select(zeros() < x, dy, zeros());
}

// Calls body(kind) with the kind as a type, so that the loops are compiled for each kind.
template <Activation kKind>
struct KindTag {
  static constexpr Activation kValue = kKind;
};
template <typename Body>
TRIREME_INLINE void with_kind(Activation kind, Body&& body) {
  switch (kind) {
    case Activation::GeluTanh:
      return body(KindTag<Activation::GeluTanh>{});
    case Activation::GeluErf:
      return body(KindTag<Activation::GeluErf>{});
    case Activation::Relu:
      return body(KindTag<Activation::Relu>{});
    case Activation::Relu2:
      return body(KindTag<Activation::Relu2>{});
  }
}

template <typename T, Activation kKind>
void forward_rows(const ActivationForwardArgs& args, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    const T* x_F = args.x_TF.row<T>(t);
    T* y_F = args.y_TF.row<T>(t);
    for_each_vector(args.x_TF.cols, [&](int64_t f, auto lanes) TRIREME_INLINE_LAMBDA {
      store(y_F + f, value_of<kKind>(load(x_F + f, lanes)), lanes);
    });
  }
}

template <typename T, Activation kKind>
void backward_rows(const ActivationBackwardArgs& args, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    const T* dy_F = args.dy_TF.row<T>(t);
    const T* x_F = args.x_TF.row<T>(t);
    T* dx_F = args.dx_TF.row<T>(t);
    for_each_vector(args.x_TF.cols, [&](int64_t f, auto lanes) TRIREME_INLINE_LAMBDA {
      store(dx_F + f, times_slope<kKind>(load(dy_F + f, lanes), load(x_F + f, lanes)), lanes);
    });
  }
}

template <typename T>
void swiglu_rows(const SwigluForwardArgs& args, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    const T* gate_F = args.gate_TF.row<T>(t);
    const T* up_F = args.up_TF.row<T>(t);
    T* y_F = args.y_TF.row<T>(t);
    for_each_vector(args.gate_TF.cols, [&](int64_t f, auto lanes) TRIREME_INLINE_LAMBDA {
      const F32x16 gate = load(gate_F + f, lanes);
      store(y_F + f, gate * sigmoid_f32(gate) * load(up_F + f, lanes), lanes);
    });
  }
}

template <typename T>
void swiglu_backward_rows(const SwigluBackwardArgs& args, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    const T* dy_F = args.dy_TF.row<T>(t);
    const T* gate_F = args.gate_TF.row<T>(t);
    const T* up_F = args.up_TF.row<T>(t);
    T* dgate_F = args.dgate_TF.row<T>(t);
    T* dup_F = args.dup_TF.row<T>(t);
    for_each_vector(args.gate_TF.cols, [&](int64_t f, auto lanes) TRIREME_INLINE_LAMBDA {
      const F32x16 dy = load(dy_F + f, lanes);
      const F32x16 gate = load(gate_F + f, lanes);
      const F32x16 up = load(up_F + f, lanes);
      const F32x16 s = sigmoid_f32(gate);
      const F32x16 silu = gate * s;
      store(dgate_F + f, dy * up * fma(silu, broadcast(1.0f) - s, s), lanes);
      store(dup_F + f, dy * silu, lanes);
    });
  }
}

}  // namespace

void activation_forward(Stream& stream, const ActivationForwardArgs& args) {
  check_activation_forward(args);
  with_kind(args.kind, [&]<typename Kind>(Kind) {
    with_element(args.x_TF.dtype, [&]<typename T>(T) {
      for_each_row_tile(stream, args.x_TF.rows, args.x_TF.cols,
                        [&](int64_t begin, int64_t end, int) {
                          forward_rows<T, Kind::kValue>(args, begin, end);
                        });
    });
  });
}

void activation_backward(Stream& stream, const ActivationBackwardArgs& args) {
  check_activation_backward(args);
  with_kind(args.kind, [&]<typename Kind>(Kind) {
    with_element(args.x_TF.dtype, [&]<typename T>(T) {
      for_each_row_tile(stream, args.x_TF.rows, args.x_TF.cols,
                        [&](int64_t begin, int64_t end, int) {
                          backward_rows<T, Kind::kValue>(args, begin, end);
                        });
    });
  });
}

void swiglu_forward(Stream& stream, const SwigluForwardArgs& args) {
  check_swiglu_forward(args);
  with_element(args.gate_TF.dtype, [&]<typename T>(T) {
    for_each_row_tile(stream, args.gate_TF.rows, args.gate_TF.cols,
                      [&](int64_t begin, int64_t end, int) { swiglu_rows<T>(args, begin, end); });
  });
}

void swiglu_backward(Stream& stream, const SwigluBackwardArgs& args) {
  check_swiglu_backward(args);
  with_element(args.gate_TF.dtype, [&]<typename T>(T) {
    for_each_row_tile(
        stream, args.gate_TF.rows, args.gate_TF.cols,
        [&](int64_t begin, int64_t end, int) { swiglu_backward_rows<T>(args, begin, end); });
  });
}

}  // namespace trireme::TRIREME_ISA
