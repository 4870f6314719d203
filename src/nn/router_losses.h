#pragma once

#include <cstdint>

#include "nn/visits.h"

namespace trireme {

// The values of a router's own losses, summed over tokens, without the weights that they have in
// the loss: E / (S k) sum_e(visits of the sequence to e * e's part of the token's scores), whose
// mean over a sequence of S tokens is E sum_e f_e P_e (1: even), and the square of the logarithm of
// the sum of the logits' exponentials. Each token is rounded to a whole number of 1 /
// kRouterLossUnit, so that no order of sums changes a bit.
struct RouterLosses {
  int64_t aux = 0;  // 0 where the model is not trained on it
  int64_t z = 0;    // likewise
};
inline constexpr int64_t kRouterLossUnit = int64_t{1} << 22;
// What a token counts at most, and where it is not finite: 2^25 of them do not overflow.
inline constexpr double kMostOfToken = 65536.0;

// Of the tokens that `route` has: of a part of every sequence where ranks share them.
RouterLosses router_losses(const ModelShard& model, const Route& route);

}  // namespace trireme
