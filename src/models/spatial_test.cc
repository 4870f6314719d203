// Stages of nets of images whose rows the tp ranks share out.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/moves.h"
#include "models/split_stage.h"
#include "sharding/redistribution_fixture.h"

namespace trireme {
namespace {

const std::vector<LayerRule> kSpatialRules = {{"conv*", LayerStrategy::Spatial}};

// Images of 8 rows for conv_net and of 16 for resnet, whose head reads 4 and 4.
constexpr const char* kSpatialNets[] = {"conv_net", "resnet"};

Way by_rows(Recompute recompute = Recompute::None, bool split_backward = false) {
  return {.recompute = recompute,
          .split_backward = split_backward,
          .sequence_parallel = true,
          .layers = kSpatialRules};
}

TEST(Spatial, LossesAndEveryGradientAreThoseOfOneRank) {
  for (const char* name : kSpatialNets) {
    const ModelSpec model = model_of(name);
    const Outcome one = run_stage(model, fastest_kernels(), 1, {});
    for (const int tp : {1, 2, 3, 4}) {
      for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
        for (const bool split : {false, true}) {
          SCOPED_TRACE(
              fmt::format("{}: tp {} recompute {} split {}", name, tp, int(recompute), split));
          expect_same_training(run_stage(model, fastest_kernels(), tp, by_rows(recompute, split)),
                               one);
        }
      }
    }
  }
}

Traffic predicted_by_moves(Group& tp, const std::vector<TensorMove>& moves) {
  Traffic sum;
  for (const TensorMove& move : moves) {
    sum += redistribution_traffic(tp, move.change, move.global, move.dtype);
  }
  return sum;
}

// A stage moves exactly the bytes that its graphs predict.
TEST(Spatial, TrafficIsThePredictedToTheByte) {
  for (const char* name : kSpatialNets) {
    const ModelSpec model = model_of(name);
    for (const int tp : {1, 2, 3, 4}) {
      for (const Recompute recompute : {Recompute::None, Recompute::Full}) {
        for (const bool split : {false, true}) {
          SCOPED_TRACE(
              fmt::format("{}: tp {} recompute {} split {}", name, tp, int(recompute), split));
          run_ranks(tp, [&](World& world) {
            Group& group = world.group();
            TestStage stage(model, fastest_kernels(), DType::F32, by_rows(recompute, split),
                            &group);
            const StageMoves moves = stage_moves(model, whole_model(model), stage.shape());
            stage.forward();
            const Traffic forward = group.traffic();
            stage.backward();
            const Traffic all = group.traffic();
            EXPECT_EQ(forward.sent_bytes, predicted_by_moves(group, moves.forward).sent_bytes);
            Traffic backward = predicted_by_moves(group, moves.backward_input);
            backward += predicted_by_moves(group, moves.backward_weight);
            for (int times = 0; times < (split ? 2 : 1); ++times) {
              backward += predicted_by_moves(group, moves.recompute);
            }
            EXPECT_EQ(all.sent_bytes - forward.sent_bytes, backward.sent_bytes);
            EXPECT_EQ(all.received_bytes - forward.received_bytes, backward.received_bytes);
          });
        }
      }
    }
  }
}

}  // namespace
}  // namespace trireme
