#pragma once

#include "graph/axis_part.h"
#include "kernels/activation/activation.h"
#include "nn/op_binding.h"
#include "nn/op_body.h"

namespace trireme {

// y = act(x), or silu(gate) * up, or weight * silu(gate) * up of the rows of experts.
class ActivationBody final : public OpBody {
 public:
  explicit ActivationBody(const OpBinding& b);
  void forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;
  void backward_input(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;

 private:
  bool is_gated_, is_of_experts_;
  Activation kind_;
  MatrixAt u_TU_, x_TF_, up_TF_;  // u: gate and up side by side; x: gate, or the only input
  MatrixAt y_TF_, dy_TF_;
  MatrixAt du_TU_, dx_TF_, dup_TF_;
  TensorAt weight_R_, begin_R_, dweight_R_;  // of experts
};

// Rotary positions of every head, or of the last columns of each, in place.
class RopeBody final : public OpBody {
 public:
  explicit RopeBody(const OpBinding& b);
  void forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;
  void backward_input(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;

 private:
  int64_t turned_, head_width_, seq_len_;
  MatrixAt x_TD_, dx_TD_;  // from the first turned column on
  TensorAt cos_SD_, sin_SD_;
};

// Every head of y: that of x, then `shared`, which all heads have. Legend: P columns of `shared`.
class ConcatBody final : public OpBody {
 public:
  explicit ConcatBody(const OpBinding& b);
  void forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;
  void backward_input(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;

 private:
  template <typename Visit>
  void for_each_head(const MatrixRef& x_TX, const MatrixRef& y_TY, Visit&& visit) const;

  int64_t heads_ = 0;
  MatrixAt x_TX_, shared_TP_, y_TY_;
  MatrixAt dy_TY_, dx_TX_, dshared_TP_;
  MatrixAt sum_TP_;  // fp32
};

// y = gain x, every channel with its own gain.
class ScaleBody final : public OpBody {
 public:
  explicit ScaleBody(const OpBinding& b);
  void forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;
  void backward_input(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;
  void backward_weight(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m,
                       Write write) const override;

 private:
  TensorRef gain_C_;
  MatrixAt x_TC_, y_TC_, dy_TC_;
  InputGradAt dx_;
  TensorAt dgain_C_;
};

// y = a + b.
class AddBody final : public OpBody {
 public:
  explicit AddBody(const OpBinding& b);
  void forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;
  void backward_input(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;

 private:
  MatrixAt a_TC_, b_TC_, y_TC_, dy_TC_;
  InputGradAt da_, db_;
};

// y = dropout(x). A rank may have some of the rows or of the columns: an element is dropped by its
// number among all.
class DropoutBody final : public OpBody {
 public:
  explicit DropoutBody(const OpBinding& b);
  void forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;
  void backward_input(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;

 private:
  void drop(Ctx& ctx, const MicrobatchInfo& info, MatrixRef x_TC, MatrixRef addend_TC,
            MatrixRef y_TC) const;

  ModelShard model_;
  RngKey key_;
  Placement over_tp_;
  AxisPart columns_;
  MatrixAt x_TC_, y_TC_, dy_TC_;
  InputGradAt dx_;
};

// From one placement over tp to another, where no product beside it does so.
class RedistributeBody final : public OpBody {
 public:
  explicit RedistributeBody(const OpBinding& b);
  void forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;
  void backward_input(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;

 private:
  Redistribution change_;
  MatrixAt x_TC_, y_TC_, dy_TC_, dx_TC_;
};

}  // namespace trireme
