#include "optim/newton_schulz.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "schema/newton_schulz.h"
#include "schema/norm_chunk.h"

namespace trireme {
namespace {

double norm_of(Ctx& ctx, const NewtonSchulzTensors& tensors) {
  ctx.kernels.squared_norm(ctx.stream, {flat(tensors.x), tensors.partials});
  const double* partials = tensors.partials.as<double>();
  return std::sqrt(std::accumulate(partials, partials + tensors.partials.num_elements(), 0.0));
}

}  // namespace

NewtonSchulzTensors::NewtonSchulzTensors(const WholeMatrix& matrix, DType compute, void* region) {
  const NewtonSchulzMemory memory = newton_schulz_memory(matrix, compute);
  const auto place = [&](int64_t at, int64_t rows, int64_t cols) {
    return MatrixRef{static_cast<char*>(region) + at, memory.dtype, rows, cols, cols};
  };
  x = place(memory.x, matrix.rows, matrix.cols);
  next = place(memory.next, matrix.rows, matrix.cols);
  gram = place(memory.gram, memory.side, memory.side);
  square = place(memory.square, memory.side, memory.side);
  partials = {static_cast<char*>(region) + memory.partials, DType::F64,
              Shape{num_norm_chunks(matrix.rows * matrix.cols)}};
}

MatrixRef orthogonalize(Ctx& ctx, const NewtonSchulzTensors& tensors) {
  const auto [x_RC, next_RC, gram_SS, square_SS, partials] = tensors;
  const bool is_wide = x_RC.rows <= x_RC.cols;
  const double factor = 1.0 / (norm_of(ctx, tensors) + NewtonSchulz::kEps);
  ctx.kernels.weighted_sum(ctx.stream,
                           {.a_MN = x_RC, .b_MN = {}, .out_MN = x_RC, .a_factor = float(factor)});
  MatrixRef from_RC = x_RC, to_RC = next_RC;
  const auto multiply = [&](MatmulForm form, const MatrixRef& a, const MatrixRef& b,
                            const MatrixRef& c) {
    ctx.kernels.matmul(ctx.stream, {.form = form, .a = a, .b = b, .c = c});
  };
  for (int i = 0; i < NewtonSchulz::kIterations; ++i) {
    // gram = x x^T or x^T x, whichever is smaller. It is symmetric, so it may also be transposed.
    multiply(is_wide ? MatmulForm::NT : MatmulForm::TN, from_RC, from_RC, gram_SS);
    multiply(MatmulForm::NT, gram_SS, gram_SS, square_SS);
    ctx.kernels.weighted_sum(ctx.stream, {.a_MN = gram_SS,
                                          .b_MN = square_SS,
                                          .out_MN = gram_SS,
                                          .a_factor = float(NewtonSchulz::kB),
                                          .b_factor = float(NewtonSchulz::kC),
                                          .diagonal = float(NewtonSchulz::kA)});
    if (is_wide) {
      multiply(MatmulForm::NN, gram_SS, from_RC, to_RC);
    } else {
      multiply(MatmulForm::NT, from_RC, gram_SS, to_RC);
    }
    std::swap(from_RC, to_RC);
  }
  return from_RC;
}

}  // namespace trireme
