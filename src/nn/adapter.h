#pragma once

#include <vector>

#include "nn/op_binding.h"

namespace trireme {

// Writes ModelSpec::lora_scale for every channel between the two matrices of an adapter.
void fill_adapter_scale(const ModelSpec& model, const TensorRef& scale_r);

// The adapters of a linear op (Op::adapters): y += s (x a^T) b^T for some of the outputs that stand
// side by side in y. Of x or of y a tp rank has some columns, and so it has of `a` or of `b`; what
// it computes is its addend of the same sums as the product's. Legend: T tokens, C columns of x, F
// columns of y, G of one output, r rank of the adapter.
class Adapters {
 public:
  explicit Adapters(const OpBinding& b);

  bool empty() const { return adapters_.empty(); }
  void add_forward(Ctx& ctx, const SlotMemory& m, MatrixRef x_TC, MatrixRef y_TF) const;
  // dx += s (dy b) a
  void add_backward_input(Ctx& ctx, const SlotMemory& m, MatrixRef dy_TF, MatrixRef dx_TC) const;
  void backward_weight(Ctx& ctx, const SlotMemory& m, MatrixRef dy_TF, MatrixRef x_TC,
                       Write write) const;

 private:
  struct One {
    MatrixRef a_rC, b_Gr;
    MatrixAt da_rC, db_Gr;
    int64_t column = 0, cols = 0;  // of the output in y
  };
  MatrixRef output_of(const One& one, MatrixRef y_TF) const {
    return cols_of(y_TF, one.column, one.cols);
  }
  // s x a^T and s dy b, in scratch.
  MatrixRef inner(Ctx& ctx, const SlotMemory& m, const One& one, MatrixRef x_TC) const;
  MatrixRef inner_grad(Ctx& ctx, const SlotMemory& m, const One& one, MatrixRef dy_TF) const;
  MatrixRef scaled(Ctx& ctx, MatrixRef x_Tr) const;

  std::vector<One> adapters_;
  TensorRef scale_r_;
  MatrixAt inner_Tr_;
};

// One adapter of a product whose matrix is multiplied head by head (LatentAttention). It adds
// nothing if the product has none. Legend: t tokens, C columns of the product's input, G rows of a
// head, r rank of the adapter.
class HeadAdapter {
 public:
  // `output`: Adapter::output.
  HeadAdapter(const OpBinding& b, size_t output);

  // y += s (x a^T) b^T for the head whose rows begin at `row`.
  void add_product(Ctx& ctx, const SlotMemory& m, MatrixRef x_tC, int64_t row,
                   MatrixRef y_tG) const;
  // y += s (x b) a, the product with the transposed matrix of that head.
  void add_transposed_product(Ctx& ctx, const SlotMemory& m, MatrixRef x_tG, int64_t row,
                              MatrixRef y_tC) const;

 private:
  MatrixRef a_rC_, b_Fr_;  // b of all heads; absent: no adapter
  TensorRef scale_r_;
  MatrixAt inner_Tr_;
};

}  // namespace trireme
