#pragma once

#include "memory/newton_schulz_memory.h"
#include "nn/ctx.h"

namespace trireme {

// The tensors of NewtonSchulzMemory in their region, which this object borrows.
class NewtonSchulzTensors {
 public:
  NewtonSchulzTensors(const WholeMatrix& matrix, DType compute, void* region);

  MatrixRef x, next;       // [rows, cols]
  MatrixRef gram, square;  // [side, side], side = min(rows, cols)
  TensorRef partials;

  // The first `count` elements of x or of next as a flat tensor.
  TensorRef of_x(int64_t count) const { return first_of(x, count); }
  TensorRef of_next(int64_t count) const { return first_of(next, count); }

 private:
  static TensorRef first_of(const MatrixRef& matrix, int64_t count) {
    return {matrix.data, matrix.dtype, Shape{count}};
  }
};

// Approximates the orthogonal factor of tensors.x by the iterations of NewtonSchulz. For
// x = U S V^T this factor is U V^T. Overwrites all tensors, and returns x or next, whichever holds
// the result. The result depends on x alone: neither threads nor layout change a bit.
MatrixRef orthogonalize(Ctx& ctx, const NewtonSchulzTensors& tensors);

}  // namespace trireme
