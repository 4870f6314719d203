#include "nn/router_losses.h"

#include <algorithm>
#include <cmath>

namespace trireme {
namespace {

int64_t in_units(double value) {
  const double bounded = value < kMostOfToken ? value : kMostOfToken;  // also where it is no number
  return std::llrint(bounded * double(kRouterLossUnit));
}

// The visits of a token's sequence, weighted by its scores over their sum.
double mean_visits(const float* score_E, const int32_t* count_E, int64_t E) {
  double sum = 0.0, weighted = 0.0;
  for (int64_t e = 0; e < E; ++e) {
    sum += double(score_E[e]);
    weighted += double(score_E[e]) * double(count_E[e]);
  }
  return weighted / std::max(sum, 1e-20);
}

}  // namespace

RouterLosses router_losses(const ModelShard& model, const Route& r) {
  RouterLosses losses;
  const int64_t T = r.score_TE.rows, E = r.score_TE.cols, of_sequence = T / r.count_nE.rows;
  if (model.aux_loss > 0.0) {
    const double visits = double(model.seq_len) * double(model.top_k);
    for (int64_t t = 0; t < T; ++t) {
      const int32_t* count_E = r.count_nE.row<int32_t>(t / of_sequence);
      losses.aux +=
          in_units(mean_visits(r.score_TE.row<float>(t), count_E, E) * double(E) / visits);
    }
  }
  if (model.z_loss > 0.0) {
    const float* lse_T = r.lse_T.as<float>();
    for (int64_t t = 0; t < T; ++t) losses.z += in_units(double(lse_T[t]) * double(lse_T[t]));
  }
  return losses;
}

}  // namespace trireme
