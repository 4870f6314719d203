#include "kernels/activation/activation_cases.h"
#include "kernels/bench_tensors.h"

namespace trireme {

void bench_activation(std::vector<BenchRow>& rows, const BenchContext& context) {
  const auto [T, F] = kActivationBenchShape;
  const char* names[] = {"gelu_tanh ", "gelu_erf ", "relu "};
  for (DType dtype : {DType::BF16, DType::F32}) {
    Tensor x = varied(dtype, {T, F}), up = varied(dtype, {T, F}), dy = varied(dtype, {T, F});
    Tensor y(dtype, {T, F}), dup(dtype, {T, F});
    const double bytes = double(T * F * size_of(dtype));
    const auto measure = [&](const std::string& name, double passes, const char* formula,
                             auto&& call) {
      add_bandwidth_row(rows, context, "activation", name + extents(T, F), dtype,
                        {passes * bytes, formula}, call);
    };
    for (Activation kind : {Activation::GeluTanh, Activation::GeluErf, Activation::Relu}) {
      const std::string name = names[int(kind)];
      measure("forward " + name, 2, "read x, write y", [&] {
        context.kernels.activation_forward(context.stream, {kind, matrix(x), matrix(y)});
      });
      measure("backward " + name, 3, "read dy, x, write dx", [&] {
        context.kernels.activation_backward(context.stream,
                                            {kind, matrix(dy), matrix(x), matrix(y)});
      });
    }
    measure("forward swiglu ", 3, "read gate, up, write y", [&] {
      context.kernels.swiglu_forward(context.stream, {matrix(x), matrix(up), matrix(y)});
    });
    measure("backward swiglu ", 5, "read dy, gate, up, write dgate, dup", [&] {
      context.kernels.swiglu_backward(context.stream,
                                      {matrix(dy), matrix(x), matrix(up), matrix(y), matrix(dup)});
    });
  }
}

}  // namespace trireme
