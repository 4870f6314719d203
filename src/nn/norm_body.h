#pragma once

#include "nn/op_binding.h"
#include "nn/op_body.h"

namespace trireme {

// y = norm(x), layer norm or RMS norm of every token, or of every head of it with the same gain.
class NormBody final : public OpBody {
 public:
  explicit NormBody(const OpBinding& b);

  void forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;
  void backward_input(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;
  void backward_weight(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m,
                       Write write) const override;

 private:
  NormKind kind_;
  int64_t num_norms_;  // of a token
  float eps_;
  TensorRef gain_C_, bias_C_;  // absent: 1, 0
  MatrixAt x_TC_, y_TC_, dy_TC_;
  MatrixAt dx_TC_, addend_TC_;  // dx = addend + the norm's own gradient
  TensorAt mean_T_, rstd_T_;    // mean: layer norm only
  TensorAt dgain_C_, dbias_C_;
};

}  // namespace trireme
