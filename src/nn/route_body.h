#pragma once

#include "nn/earlier_visits.h"
#include "nn/op_binding.h"
#include "nn/op_body.h"
#include "nn/visits.h"

namespace trireme {

// The router: scores of every expert for every token, the experts that a token visits, and the rows
// in which its visits lie. Legend: as visits.h, and C d_model.
class RouteBody final : public OpBody {
 public:
  explicit RouteBody(const OpBinding& b);
  void forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;
  void backward_input(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const override;
  void backward_weight(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m,
                       Write write) const override;

 private:
  void count_visits(const Route& route, float* sum_E, Write write) const;

  ModelShard model_;
  MatrixRef weight_EC_;
  TensorRef bias_E_;  // absent: not balanced by load
  EarlierVisits earlier_;
  RouteAt route_;
  MatrixAt x_TC_, dx_TC_, dx_addend_TC_;
  MatrixAt dlogits_TE_;
  TensorAt dweight_A_;
  MatrixAt dweight_EC_;
  TensorAt dbias_E_;
};

}  // namespace trireme
