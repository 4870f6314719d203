#pragma once

#include "nn/expert_exchange.h"
#include "nn/op_binding.h"

namespace trireme {

// Where every token goes, and the rows in which visits lie; made by the router, read by the ops
// around the experts. Legend: T tokens, E experts, k experts of a token, A visits of this rank's
// tokens, R visits of this rank's experts, n sequences.
struct Route {
  MatrixRef score_TE, expert_Tk, weight_Tk, row_Tk, count_nE;
  TensorRef lse_T, token_A, weight_A, begin_E;
  TensorRef load_E;              // int32 [E + 1]: visits of every expert, and dropped ones
  TensorRef weight_R, begin_R;   // weight_A and begin_E where one rank has all experts
  TensorRef taken_E, counts_2P;  // scratch of the exchange; absent with one rank

  ExpertExchange exchange() const { return {begin_E, begin_R, taken_E, counts_2P}; }
};

struct RouteAt {
  MatrixAt score_TE, expert_Tk, weight_Tk, row_Tk, count_nE;
  TensorAt lse_T, token_A, weight_A, begin_E, load_E, weight_R, begin_R, taken_E, counts_2P;

  // Finds the tensors of the router in the unit of `b`.
  static RouteAt bind(const OpBinding& b);
  Route operator()(const SlotMemory& m) const;
};

// Gradients of the visits' weights in the order of this rank's tokens. Where it has all experts
// they are those by expert.
TensorAt weight_grads_by_token(const OpBinding& b);

}  // namespace trireme
