#pragma once

#include <vector>

#include "nn/mlp.h"

namespace trireme {

// y = x1 + dropout(sum of the experts that the router chooses, weighted, + shared experts), of
// norm(x1); each expert is W_down (silu(gate) * up). The weights are applied between an expert's
// matmuls, so that what comes back is only added up. Each tp rank has its own hidden units of every
// expert. Legend: as in mlp.h, and E experts, k experts of a token, A rows (visits sorted by
// expert), n sequences.
struct MoeBlock {
  struct Params {
    Norm::Params norm;
    MatrixRef router_EC;
    TensorRef bias_E;  // absent: not balanced by load
    std::vector<MatrixRef> up_E, down_E;
    Linear::Params shared_up, shared_down;  // absent: no shared experts
    static Params bind(const ModelShard& model, const Frame& frame, const std::string& layer);
  };
  // Where every token goes; never computed twice.
  struct Route {
    MatrixRef score_TE, expert_Tk, weight_Tk, row_Tk, count_nE;
    TensorRef lse_T, token_A, weight_A, begin_E;
    TensorRef load_E;  // int32 [E + 1]: visits of every expert, and dropped ones
    template <typename Find>
    static Route bind(Find&& tensor);
  };
  struct Saved {
    MlpBlock::Saved mlp;  // of it: x1, h, y, norm, h_full, partial; u and a are the shared experts'
    Route route;
    MatrixRef x_AC, u_AU, a_AF;
    MatrixRef part_AC;  // scratch: the experts' results
  };
  struct Grads {
    MlpBlock::Grads mlp;  // da and du are the shared experts'
    MatrixRef dy_AC, du_AU;
    MatrixRef dlogits_TE;
    MatrixRef da_AF, part_AC;  // scratch
    TensorRef dweight_A;       // scratch
  };

  ModelShard model;
  Norm norm;
  Params params;
  RngKey residual_dropout_key;

  static MoeBlock bind(const ModelShard& model, const Frame& params, const std::string& layer,
                       uint64_t seed);

  void forward(Ctx& ctx, const MicrobatchInfo& info, const Saved& saved) const;
  // Everything but the router and the projections onto the residual.
  void recompute_all(Ctx& ctx, const Saved& saved) const;
  void recompute_norm_and_activation(Ctx& ctx, const Saved& saved) const;
  void backward_input(Ctx& ctx, const MicrobatchInfo& info, const Saved& saved,
                      const Grads& grads) const;
  void backward_weight(Ctx& ctx, const Saved& saved, const Grads& grads, const Params& dparams,
                       Write write) const;

 private:
  void gather(Ctx& ctx, const Saved& saved) const;
  void route(Ctx& ctx, const Saved& saved) const;
  void enter_experts(Ctx& ctx, const Saved& saved) const;
  void activate(Ctx& ctx, const Saved& saved) const;
  void combine(Ctx& ctx, const MicrobatchInfo& info, const Saved& saved) const;
  void backward_experts(Ctx& ctx, const Saved& saved, const Grads& grads) const;
  void backward_route(Ctx& ctx, const Saved& saved, const Grads& grads) const;
  void backward_shared(Ctx& ctx, const Saved& saved, const Grads& grads) const;
};

template <typename Find>
MoeBlock::Route MoeBlock::Route::bind(Find&& tensor) {
  return {matrix(tensor("route.score_TE")),  matrix(tensor("route.expert_Tk")),
          matrix(tensor("route.weight_Tk")), matrix(tensor("route.row_Tk")),
          matrix(tensor("route.count_nE")),  tensor("route.lse_T"),
          tensor("route.token_A"),           tensor("route.weight_A"),
          tensor("route.begin_E"),           tensor("route.load_E")};
}

}  // namespace trireme
