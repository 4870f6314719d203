#include "nn/router_losses.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace trireme {
namespace {

constexpr double kHalfUnit = 0.5 / double(kRouterLossUnit);

// What a router leaves of n sequences of S tokens.
struct Routed {
  Routed(int64_t n, int64_t S, int64_t E, int64_t k)
      : S(S), k(k), score(size_t(n * S * E)), lse(size_t(n * S)), count(size_t(n * E), 0) {
    model.seq_len = S;
    model.experts = E;
    model.top_k = k;
    model.aux_loss = 0.01;
    model.z_loss = 0.001;
  }
  int64_t E() const { return model.experts; }
  int64_t T() const { return int64_t(lse.size()); }
  void visit(int64_t t, int64_t e) { ++count[size_t(t / S * E() + e)]; }

  // Of tokens that lie one behind the other in each of `sequences`.
  static Route route_of(std::vector<float>& score, std::vector<float>& lse,
                        std::vector<int32_t>& count, int64_t E) {
    const int64_t T = int64_t(lse.size()), n = int64_t(count.size()) / E;
    Route route;
    route.score_TE = matrix({score.data(), DType::F32, Shape{T, E}});
    route.lse_T = {lse.data(), DType::F32, Shape{T}};
    route.count_nE = matrix({count.data(), DType::I32, Shape{n, E}});
    return route;
  }
  RouterLosses losses() { return router_losses(model, route_of(score, lse, count, E())); }

  ModelShard model;
  int64_t S, k;
  std::vector<float> score, lse;
  std::vector<int32_t> count;
};

Routed random_routed(unsigned seed, bool softmax) {
  std::mt19937 random(seed);
  const int64_t n = 1 + random() % 3, S = 2 * (1 + random() % 6), E = 2 + random() % 7;
  Routed routed(n, S, E, 1 + random() % 2);
  std::normal_distribution<float> logit(0.0f, 2.0f);
  for (int64_t t = 0; t < n * S; ++t) {
    float* score = &routed.score[size_t(t * E)];
    std::vector<double> x(static_cast<size_t>(E));
    double sum = 0.0;
    for (double& value : x) sum += std::exp(value = logit(random));
    for (int64_t e = 0; e < E; ++e) {
      const double of_e = std::exp(x[size_t(e)]);
      score[e] = float(softmax ? of_e / sum : of_e / (1.0 + of_e));
    }
    routed.lse[size_t(t)] = float(std::log(sum));
    std::vector<int64_t> order(static_cast<size_t>(E));
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(),
              [&](int64_t a, int64_t b) { return score[a] > score[b]; });
    for (int64_t j = 0; j < routed.k; ++j) routed.visit(t, order[size_t(j)]);
  }
  return routed;
}

// E sum_e f_e P_e of every sequence, once for each of its tokens.
double aux_by_definition(const Routed& r) {
  const int64_t E = r.E(), S = r.S;
  double sum = 0.0;
  for (int64_t n = 0; n < r.T() / S; ++n) {
    for (int64_t e = 0; e < E; ++e) {
      const double f = double(r.count[size_t(n * E + e)]) / double(S * r.k);
      double P = 0.0;
      for (int64_t t = n * S; t < (n + 1) * S; ++t) {
        const auto of_token = r.score.begin() + t * E;
        P += double(of_token[e]) / std::accumulate(of_token, of_token + E, 0.0) / double(S);
      }
      sum += double(S) * double(E) * f * P;
    }
  }
  return sum;
}

TEST(RouterLosses, AreTheFormulasOverTheTokens) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    Routed routed = random_routed(seed, seed % 2 == 0);
    const RouterLosses losses = routed.losses();
    const double bound = double(routed.T()) * kHalfUnit * 1.01;
    double z = 0.0;
    for (const float lse : routed.lse) z += double(lse) * double(lse);
    EXPECT_NEAR(double(losses.aux) / double(kRouterLossUnit), aux_by_definition(routed), bound)
        << seed;
    EXPECT_NEAR(double(losses.z) / double(kRouterLossUnit), z, bound) << seed;
  }
}

TEST(RouterLosses, AnEvenRouterHasOneAndTheSquareOfLogE) {
  for (const int64_t E : {2, 4, 8, 64}) {
    Routed routed(2, E, E, 2);
    std::fill(routed.score.begin(), routed.score.end(), 1.0f / float(E));
    std::fill(routed.lse.begin(), routed.lse.end(), float(std::log(double(E))));
    for (int64_t t = 0; t < routed.T(); ++t) {
      routed.visit(t, t % E);
      routed.visit(t, (t + 1) % E);
    }
    EXPECT_EQ(routed.losses().aux, routed.T() * kRouterLossUnit) << E;
    const double z = double(routed.losses().z) / double(kRouterLossUnit) / double(routed.T());
    EXPECT_NEAR(z, std::log(double(E)) * std::log(double(E)), 1e-6 * z + kHalfUnit) << E;
  }
}

TEST(RouterLosses, ARouterOfOneExpertHasAsManyAsThereAre) {
  Routed routed(1, 6, 8, 1);
  for (int64_t t = 0; t < routed.T(); ++t) {
    routed.score[size_t(t * 8 + 3)] = 1.0f;
    routed.visit(t, 3);
  }
  EXPECT_EQ(routed.losses().aux, 8 * routed.T() * kRouterLossUnit);
}

// Each rank has its part of every sequence's tokens and the visits of the whole ones.
TEST(RouterLosses, RanksThatShareSequencesAddUpToOne) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    Routed whole = random_routed(seed, true);
    const int64_t E = whole.E(), half = whole.S / 2;
    RouterLosses sum;
    for (int rank = 0; rank < 2; ++rank) {
      std::vector<float> score, lse;
      for (int64_t t = 0; t < whole.T(); ++t) {
        if (t % whole.S / half != rank) continue;
        lse.push_back(whole.lse[size_t(t)]);
        score.insert(score.end(), whole.score.begin() + t * E, whole.score.begin() + (t + 1) * E);
      }
      const RouterLosses part =
          router_losses(whole.model, Routed::route_of(score, lse, whole.count, E));
      sum.aux += part.aux;
      sum.z += part.z;
    }
    EXPECT_EQ(sum.aux, whole.losses().aux) << seed;
    EXPECT_EQ(sum.z, whole.losses().z) << seed;
  }
}

TEST(RouterLosses, WhatIsNotTrainedOnIsNotSummed) {
  Routed routed = random_routed(1, true);
  routed.model.aux_loss = 0.0;
  EXPECT_EQ(routed.losses().aux, 0);
  EXPECT_GT(routed.losses().z, 0);
  routed.model.z_loss = 0.0;
  EXPECT_EQ(routed.losses().z, 0);
}

TEST(RouterLosses, ATokenThatIsNotFiniteCountsTheMost) {
  for (const float lse :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -1e30f}) {
    Routed routed(1, 1, 2, 1);
    routed.lse[0] = lse;
    routed.score = {lse, 1.0f};
    routed.visit(0, 0);
    EXPECT_EQ(routed.losses().z, int64_t(kMostOfToken) * kRouterLossUnit);
    if (std::isnan(lse)) {
      EXPECT_EQ(routed.losses().aux, int64_t(kMostOfToken) * kRouterLossUnit);
    }
  }
}

}  // namespace
}  // namespace trireme
