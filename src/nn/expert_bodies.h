#pragma once

#include <vector>

#include "nn/op_binding.h"
#include "nn/op_body.h"
#include "nn/residual.h"
#include "nn/visits.h"

namespace trireme {

// Rows of tokens, sorted by the expert that they visit, on the ranks of these experts. Legend: as
// visits.h, and C d_model.
class DispatchBody final : public OpBody {
 public:
  explicit DispatchBody(const OpBinding& b);
  void forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;
  void backward_input(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;

 private:
  RouteAt route_;
  MatrixAt x_TC_, y_RC_, dy_RC_, dx_TC_, dx_addend_TC_;
  MatrixAt sent_AC_, dback_AC_;     // scratch; y and dy themselves where one rank has all experts
  TensorAt dweight_R_, dweight_A_;  // of the visits' weights; the same where one rank has all
};

// y = x w^T of rows that are sorted by expert. Each tp rank has its own hidden units of every
// expert, each ep rank experts of its own. Legend: H experts held here, I columns of x, O of y.
class GroupedLinearBody final : public OpBody {
 public:
  explicit GroupedLinearBody(const OpBinding& b);
  void forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;
  void backward_input(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;
  void backward_weight(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m,
                       Write write) const override;

 private:
  void add_grad(int64_t expert, const MatrixGradPart& part);

  int ranks_;                        // that share the experts
  std::vector<MatrixRef> weight_E_;  // of the held experts, once for every rank of ep
  // Neighbouring experts that train the same matrices. Their gradients read the columns of dy from
  // `column` on.
  struct Trained {
    int64_t first = 0;  // of the held experts
    int64_t column = 0;
    std::vector<MatrixAt> dweight_H;
  };
  int64_t held_ = 0;  // number of experts
  std::vector<Trained> trained_;
  TensorAt begin_R_;
  MatrixAt x_RI_, y_RO_, dy_RO_, dx_RI_;
  mutable std::vector<MatrixRef> dweight_refs_H_;  // of the call under way
};

// The sum of a token's visits, as an addend of the residual stream.
class CombineBody final : public OpBody {
 public:
  explicit CombineBody(const OpBinding& b);
  void forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;
  void backward_input(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;

 private:
  ModelShard model_;
  RouteAt route_;
  SumOnResidual sum_;
  bool adds_to_output_;  // the output has another addend of the sum already
  MatrixAt x_RC_, dx_RC_, back_AC_, dsent_AC_;
};

}  // namespace trireme
