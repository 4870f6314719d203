#pragma once

#include <vector>

#include "optim/newton_schulz.h"

namespace trireme {

// A matrix that Muon updates (Jordan et al. 2024; docs/muon.md). This rank updates the part that it
// holds. The tp ranks that hold parts of the matrix must call update() together.
class MuonMatrix {
 public:
  // `region` is borrowed: newton_schulz_bytes() of memory, which all matrices of the rank share.
  // `compute` is the dtype in which the model computes.
  MuonMatrix(const WholeMatrix& matrix, DType compute, void* region);

  // Announces the all-gather of the update to the group, before step 1.
  void reserve(Group& tp) const;

  struct Step {
    TensorRef grad_N, momentum_N, master_N, param_N;  // of the part that this rank holds
    float lr = 0.0f;
    float momentum = 0.0f;
    float weight_decay = 0.0f;
    float grad_scale = 1.0f;
    RoundingWords rounding = {};
  };
  // u = momentum u + grad_scale grad, then with the whole matrix x = momentum u + grad_scale grad:
  // w = w - lr (0.2 sqrt(max(rows, cols)) orthogonal(x) + weight_decay w)
  void update(Ctx& ctx, const Step& step) const;

 private:
  CollectiveArgs gather(int rank) const;
  // Gathers the parts of the tp ranks, and makes the whole matrix of them in x.
  void assemble(Ctx& ctx) const;
  // Returns this rank's part of the whole result as contiguous numbers.
  TensorRef own_part(Ctx& ctx, const MatrixRef& result) const;

  WholeMatrix matrix_;
  std::vector<int64_t> counts_;  // [rank of tp] elements that it sends
  NewtonSchulzTensors tensors_;
};

}  // namespace trireme
