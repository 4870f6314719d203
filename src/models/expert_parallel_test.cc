#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "models/split_stage.h"

namespace trireme {
namespace {

struct Split {
  int tp, cp, ep;
};
constexpr Split kSplits[] = {{1, 2, 2}, {2, 2, 1}, {2, 2, 2}, {4, 1, 1}, {1, 3, 1}};

const char* const kExpertModels[] = {"moe", "moe_sigmoid", "moe_capacity"};

std::vector<std::vector<std::vector<int32_t>>> experts_of(const Outcome& outcome) {
  std::vector<std::vector<std::vector<int32_t>>> routes;
  for (const std::vector<RouteOf>& layer : outcome.routes) {
    routes.emplace_back();
    for (const RouteOf& token : layer) routes.back().push_back(token.experts);
  }
  return routes;
}

// Every gradient of every split, with the tokens where one rank sends them, under every
// recomputation.
TEST(ExpertParallel, LossesAndEveryGradientAreThoseOfOneRankAlongItsRoutes) {
  for (const char* name : kExpertModels) {
    const ModelSpec model = model_of(name);
    const Outcome one = run_stage(model, fastest_kernels(), 1, {});
    for (const Split& split : kSplits) {
      for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
        SCOPED_TRACE(fmt::format("{}: tp {} cp {} ep {} recompute {}", name, split.tp, split.cp,
                                 split.ep, int(recompute)));
        const Way way{.recompute = recompute,
                      .split_backward = recompute == Recompute::Selective,
                      .sequence_parallel = recompute != Recompute::None,
                      .routes = experts_of(one)};
        const Outcome got = run_stage(model, fastest_kernels(), split.tp, way, split.cp, split.ep);
        expect_same_training(got, one);
      }
    }
  }
}

TEST(ExpertParallel, ReplayedRoutesChangeNoBit) {
  for (const char* name : kExpertModels) {
    const ModelSpec model = model_of(name);
    const Outcome one = run_stage(model, fastest_kernels(), 1, {});
    const Outcome again = run_stage(model, fastest_kernels(), 1, {.routes = experts_of(one)});
    EXPECT_EQ(again.losses, one.losses);
    EXPECT_EQ(again.grads, one.grads);
  }
}

// Visits of a layer by the rank of the token and the rank of the expert.
using Visits = std::vector<std::vector<int64_t>>;

int64_t away_from(const Visits& visits, size_t rank, bool back) {
  int64_t sum = 0;
  for (size_t other = 0; other < visits.size(); ++other) {
    if (other != rank) sum += back ? visits[other][rank] : visits[rank][other];
  }
  return sum;
}

// However the router sends tokens: there and back go the rows of those that visit experts of other
// ranks, a number with each, and how many they are.
TEST(ExpertParallel, TrafficIsThatOfTheVisitsToTheByte) {
  for (const char* name : kExpertModels) {
    const ModelSpec model = model_of(name);
    for (const Recompute recompute : {Recompute::None, Recompute::Full}) {
      SCOPED_TRACE(fmt::format("{} recompute {}", name, int(recompute)));
      constexpr size_t kRanks = 2;
      std::vector<Visits> visits(size_t(model.layers), Visits(kRanks));
      std::vector<Traffic> moved(kRanks);
      run_ranks(int(kRanks), [&](World& world) {
        MeshGroups groups(world, Mesh{.cp = kRanks, .ep = kRanks});
        TestStage stage(model, fastest_kernels(), DType::F32, {.recompute = recompute},
                        &groups.tp(), &groups.cp(), &groups.ep());
        const size_t rank = size_t(groups.ep().rank());
        stage.forward();
        stage.backward();
        moved[rank] = groups.ep().traffic();
        const int64_t held = model.experts / int64_t(kRanks);
        for (size_t layer = 0; layer < visits.size(); ++layer) {
          const int32_t* begin_E = stage.route(int(layer)).begin_E.as<int32_t>();
          for (int64_t owner = 0; owner < int64_t(kRanks); ++owner) {
            visits[layer][rank].push_back(begin_E[(owner + 1) * held] - begin_E[owner * held]);
          }
        }
      });
      for (size_t rank = 0; rank < kRanks; ++rank) {
        int64_t elements = 0;
        for (const Visits& of_layer : visits) {
          const int64_t there = away_from(of_layer, rank, false);
          const int64_t back = away_from(of_layer, rank, true);
          const int64_t passes_there = recompute == Recompute::Full ? 3 : 2;
          elements += (passes_there * there + 2 * back) * model.d_model + there + back;
          elements += model.experts / 2;  // visits of each expert that lies elsewhere
        }
        EXPECT_EQ(moved[rank].sent_bytes, elements * size_of(DType::F32));
      }
    }
  }
}

// By how much the last expert that was taken beats the best that was not.
double margin_of(const RouteOf& route) {
  double last = INFINITY, next = -INFINITY;
  for (size_t e = 0; e < route.scores.size(); ++e) {
    const bool is_chosen =
        std::find(route.experts.begin(), route.experts.end(), int32_t(e)) != route.experts.end();
    if (is_chosen) last = std::min(last, double(route.scores[e]));
    if (!is_chosen) next = std::max(next, double(route.scores[e]));
  }
  return last - next;
}

int count_elsewhere(const Outcome& got, const Outcome& one) {
  int elsewhere = 0;
  for (size_t layer = 0; layer < one.routes.size(); ++layer) {
    for (size_t token = 0; token < one.routes[layer].size(); ++token) {
      std::vector<int32_t> here = got.routes[layer][token].experts;
      std::vector<int32_t> there = one.routes[layer][token].experts;
      std::sort(here.begin(), here.end());
      std::sort(there.begin(), there.end());
      if (here == there) continue;
      ++elsewhere;
      EXPECT_LT(margin_of(one.routes[layer][token]), 1e-5)
          << "layer " << layer << " token " << token;
    }
  }
  return elsewhere;
}

TEST(ExpertParallel, ATokenGoesElsewhereOnlyWhereScoresAreNearlyEqual) {
  const ModelSpec model = model_of("moe");
  const Outcome one = run_stage(model, fastest_kernels(), 1, {});
  for (const Split& split : kSplits) {
    SCOPED_TRACE(fmt::format("tp {} cp {} ep {}", split.tp, split.cp, split.ep));
    count_elsewhere(run_stage(model, fastest_kernels(), split.tp, {}, split.cp, split.ep), one);
  }
}

// Experts whose scores differ in their last bits: tokens do go elsewhere, and along the routes of
// one rank every gradient is still that of one rank.
TEST(ExpertParallel, NearTiesAreFoundAndReplayed) {
  const ModelSpec model = model_of("moe");
  const auto twins = [](TestStage& stage) {
    for (const char* layer : {"layers.0.", "layers.1."}) {
      const TensorRef router = stage.params().at(std::string(layer) + "mlp.router");
      const int64_t C = router.shape[1];
      float* rows = router.as<float>();
      for (int64_t c = 0; c < C; ++c) {
        for (int64_t e = 1; e < router.shape[0]; ++e) {
          rows[e * C + c] = rows[c] * (1.0f + 1e-6f * float(e) * (c % 2 == 0 ? 1.0f : -1.0f));
        }
      }
    }
  };
  const Outcome one = run_stage(model, fastest_kernels(), 1, {.change = twins});
  int elsewhere = 0;
  for (const Split& split : kSplits) {
    SCOPED_TRACE(fmt::format("tp {} cp {} ep {}", split.tp, split.cp, split.ep));
    const Outcome free =
        run_stage(model, fastest_kernels(), split.tp, {.change = twins}, split.cp, split.ep);
    elsewhere += count_elsewhere(free, one);
    const Way replayed{.routes = experts_of(one), .change = twins};
    expect_same_training(
        run_stage(model, fastest_kernels(), split.tp, replayed, split.cp, split.ep), one);
  }
  EXPECT_GT(elsewhere, 0);
}

}  // namespace
}  // namespace trireme
