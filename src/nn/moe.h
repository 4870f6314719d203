#pragma once

#include <vector>

#include "nn/earlier_visits.h"
#include "nn/expert_exchange.h"
#include "nn/mlp.h"

namespace trireme {

// y = x1 + dropout(sum of the experts that the router chooses, weighted, + shared experts), of
// norm(x1); each expert is W_down (silu(gate) * up). The weights are applied between an expert's
// matmuls, so that what comes back is only added up. Each tp rank has its own hidden units of every
// expert, each ep rank experts of its own. Legend: as in mlp.h and expert_exchange.h, and k experts
// of a token, n sequences.
struct MoeBlock {
  struct Params {
    Norm::Params norm;
    MatrixRef router_EC;
    TensorRef bias_E;                       // absent: not balanced by load
    std::vector<MatrixRef> up_H, down_H;    // of the experts held here
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
    EarlierVisits earlier;
    ExpertExchange exchange;
    TensorRef weight_R;
    MatrixRef x_RC, u_RU, a_RF;
    MatrixRef out_AC;   // scratch: what goes to the experts; x itself with one rank
    MatrixRef part_RC;  // scratch: the experts' results
    MatrixRef back_AC;  // scratch: what comes back; part itself with one rank
    template <typename Find>
    void bind(Find&& tensor);
  };
  struct Grads {
    MlpBlock::Grads mlp;  // da and du are the shared experts'
    MatrixRef dy_RC, du_RU;
    MatrixRef dlogits_TE;
    MatrixRef out_AC;  // scratch: what goes to the experts; dy itself with one rank
    MatrixRef da_RF, part_RC, back_AC;  // scratch
    TensorRef dweight_R, dweight_A;     // scratch; the same with one rank
    template <typename Find>
    void bind(Find&& tensor);
  };

  ModelShard model;
  Norm norm;
  Params params;
  RngKey residual_dropout_key;
  std::vector<MatrixRef> up_E, down_E;  // those of the held experts, once for every ep rank

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
  void route(Ctx& ctx, const MicrobatchInfo& info, const Saved& saved) const;
  void dispatch(Ctx& ctx, const Saved& saved) const;
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

// `tensor` finds what is absent as an empty ref.
template <typename Find>
void MoeBlock::Saved::bind(Find&& tensor) {
  route = Route::bind(tensor);
  x_RC = matrix(tensor("x_RC"));
  u_RU = matrix(tensor("u_RU"));
  a_RF = matrix(tensor("a_RF"));
  part_RC = matrix(tensor("part_RC"));
  const TensorRef sent_AC = tensor("sent_AC");
  out_AC = sent_AC ? matrix(sent_AC) : x_RC;
  back_AC = sent_AC ? matrix(sent_AC) : part_RC;
  weight_R = sent_AC ? tensor("route.weight_R") : route.weight_A;
  if (const TensorRef count_KE = tensor("visits.count_KE")) {
    earlier = {matrix(count_KE), matrix(tensor("visits.before_cE"))};
  }
  exchange = {route.begin_E, sent_AC ? tensor("route.begin_R") : route.begin_E,
              tensor("exchange.taken_E"), tensor("exchange.counts_2P")};
}

template <typename Find>
void MoeBlock::Grads::bind(Find&& tensor) {
  dy_RC = matrix(tensor("dy_RC"));
  du_RU = matrix(tensor("du_RU"));
  dlogits_TE = matrix(tensor("dlogits_TE"));
  da_RF = matrix(tensor("da_RF"));
  part_RC = matrix(tensor("part_RC"));
  dweight_R = tensor("dweight_R");
  const TensorRef sent_AC = tensor("sent_AC");
  out_AC = sent_AC ? matrix(sent_AC) : dy_RC;
  back_AC = sent_AC ? matrix(sent_AC) : part_RC;
  dweight_A = sent_AC ? tensor("dweight_A") : dweight_R;
}

}  // namespace trireme
