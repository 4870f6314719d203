#include "nn/visits.h"

#include "graph/op_placement.h"

namespace trireme {

RouteAt RouteAt::bind(const OpBinding& b) {
  const bool stay = expert_strategy(b.shape()) == ExpertStrategy::AllExperts;
  RouteAt at;
  at.score_TE = b.matrix_of_module("route.score_TE");
  at.expert_Tk = b.matrix_of_module("route.expert_Tk");
  at.weight_Tk = b.matrix_of_module("route.weight_Tk");
  at.row_Tk = b.matrix_of_module("route.row_Tk");
  at.count_nE = b.matrix_of_module("route.count_nE");
  at.lse_T = b.of_module("route.lse_T");
  at.token_A = b.of_module("route.token_A");
  at.weight_A = b.of_module("route.weight_A");
  at.begin_E = b.of_module("route.begin_E");
  at.load_E = b.of_module("route.load_E");
  at.weight_R = stay ? at.weight_A : b.of_module("route.weight_R");
  at.begin_R = stay ? at.begin_E : b.of_module("route.begin_R");
  at.taken_E = b.tensor("exchange.taken_E");
  at.counts_2P = b.tensor("exchange.counts_2P");
  at.count_nE.is_by_token = false;
  return at;
}

Route RouteAt::operator()(const SlotMemory& m) const {
  return {m(score_TE), m(expert_Tk), m(weight_Tk), m(row_Tk),   m(count_nE),
          m(lse_T),    m(token_A),   m(weight_A),  m(begin_E),  m(load_E),
          m(weight_R), m(begin_R),   m(taken_E),   m(counts_2P)};
}

TensorAt weight_grads_by_token(const OpBinding& b) {
  const bool stay = expert_strategy(b.shape()) == ExpertStrategy::AllExperts;
  return b.of_module(stay ? "route.dweight_R" : "route.dweight_A");
}

}  // namespace trireme
