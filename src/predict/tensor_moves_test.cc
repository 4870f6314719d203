#include "predict/tensor_moves.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "planner/make_plan.h"
#include "predict/predict.h"

namespace trireme {
namespace {

RunConfig config_of(const char* family, int tp, bool sequence, Recompute recompute) {
  RunConfig config;
  config.model.family = family == std::string("gpt2") ? ModelFamily::Gpt2 : ModelFamily::Llama;
  config.model.layers = 3;
  config.model.d_model = 256;
  config.model.heads = 8;
  config.model.kv_heads = 8;
  config.model.vocab_size = 300;
  config.model.seq_len = 128;
  config.batch.micro_sequences = 2;
  config.batch.global_sequences = 4;
  config.parallel.tp = tp;
  config.parallel.sequence = sequence;
  config.memory.recompute = recompute;
  return config;
}

RunPlan plan_of(RunConfig config, bool overlap) {
  config.parallel.tp_overlap = overlap;
  const auto plan = make_plan(config, {});
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return *plan;
}

Hardware hardware_of(double bytes_per_s, double latency_s) {
  Hardware hardware;
  hardware.fp32_flops = hardware.bf16_flops = 1e11;
  hardware.memory_bytes_per_s = 1e10;
  hardware.set_nodes(8, {latency_s, bytes_per_s});
  return hardware;
}

void for_every_run(const std::function<void(const RunConfig&)>& visit) {
  for (const char* family : {"gpt2", "llama"}) {
    for (const int tp : {2, 4, 8}) {
      for (const bool sequence : {false, true}) {
        for (const Recompute recompute : {Recompute::None, Recompute::Full}) {
          SCOPED_TRACE(fmt::format("{} tp {} sequence {} recompute {}", family, tp, sequence,
                                   name_of(recompute)));
          visit(config_of(family, tp, sequence, recompute));
        }
      }
    }
  }
}

constexpr ActionKind kKinds[] = {ActionKind::F, ActionKind::B, ActionKind::W, ActionKind::BW};

TensorMoves moves_of(const RunPlan& plan, const RankPlan& rank, ActionKind kind,
                     const Hardware& hardware) {
  CollectiveBytes collective_bytes(CommCost{}, hardware.nodes());
  return price_tensor_moves(plan, rank, rank.chunks[0].stage, MeshAxis::Tp, kind, hardware,
                            collective_bytes);
}

int64_t sent_over_tp(const AxisBytes& sent) {
  const auto tp =
      std::find_if(sent.begin(), sent.end(), [](const auto& axis) { return axis.first == "tp"; });
  return tp->second;
}

// Halos, sums of batch norms and whole images for the head.
TEST(TensorMoves, PriceTheRowsOfImagesThatNeighboursExchange) {
  RunConfig config;
  config.model.family = ModelFamily::ConvNet;
  config.model.layers = 2;
  config.model.image_size = 26;
  config.model.vocab_size = 10;
  config.model.seq_len = 1;
  config.data.source = DataSource::Synthetic;
  config.batch.micro_sequences = 3;
  config.batch.global_sequences = 6;
  config.parallel.tp = 3;
  config.parallel.layers = {{"conv*", LayerStrategy::Spatial}};
  const Hardware hardware = hardware_of(1e9, 0.0);
  const RunPlan plan = plan_of(config, false);
  int64_t sent_bytes = 0;
  for (const RankPlan& rank : rank_plans(plan)) {
    RankPlan alone = rank;
    for (const ActionKind kind : {ActionKind::F, ActionKind::BW}) {
      alone.program = {{.kind = kind, .chunk = 0}};
      const AxisBytes sent = predict_traffic(plan, alone, hardware.nodes());
      const TensorMoves moves = moves_of(plan, rank, kind, hardware);
      EXPECT_EQ(sent_over_tp(sent), moves.sent_bytes);
      EXPECT_NEAR(moves.seconds, double(moves.sent_bytes) / 1e9, 1e-12);
      sent_bytes += moves.sent_bytes;
    }
  }
  config.parallel.layers.clear();
  const RunPlan by_images = plan_of(config, false);
  int64_t of_whole_images = 0;
  for (const RankPlan& rank : rank_plans(by_images)) {
    for (const ActionKind kind : {ActionKind::F, ActionKind::BW}) {
      of_whole_images += moves_of(by_images, rank, kind, hardware).sent_bytes;
    }
  }
  EXPECT_GT(sent_bytes, of_whole_images);
}

// The priced bytes are exactly those that the ranks send.
TEST(TensorMoves, AreTheTransfersOfTheProgram) {
  for_every_run([](const RunConfig& config) {
    const Hardware hardware = hardware_of(1e10, 1e-6);
    for (const bool overlap : {false, true}) {
      const RunPlan plan = plan_of(config, overlap);
      for (const RankPlan& rank : rank_plans(plan)) {
        RankPlan alone = rank;
        for (const ActionKind kind : kKinds) {
          alone.program = {{.kind = kind, .chunk = 0}};
          const AxisBytes sent = predict_traffic(plan, alone, hardware.nodes());
          EXPECT_EQ(moves_of(plan, rank, kind, hardware).sent_bytes, sent_over_tp(sent));
        }
      }
    }
  });
}

// In pieces, compute waits no longer than for whole transfers plus the cost of smaller matmuls,
// each of which reads the weights again.
TEST(TensorMoves, InPiecesAreNeverSlowerThanWholeByMoreThanTheSplit) {
  for_every_run([](const RunConfig& config) {
    const RunPlan whole = plan_of(config, false), pieces = plan_of(config, true);
    const double weight_bytes = 4.0 * double(whole.num_params) / config.parallel.tp;
    const int splits = std::max(config.parallel.tp, kRowPieces) - 1;
    const int passes = config.memory.recompute == Recompute::Full ? 2 : 1;
    for (const double bytes_per_s : {1e8, 1e9, 1e10, 1e11, 1e15}) {
      const Hardware hardware = hardware_of(bytes_per_s, 0.0);
      const double split_s = passes * splits * weight_bytes / hardware.memory_bytes_per_s;
      for (const ActionKind kind : kKinds) {
        EXPECT_LE(moves_of(pieces, pieces.pipeline[0], kind, hardware).seconds,
                  moves_of(whole, whole.pipeline[0], kind, hardware).seconds + split_s);
      }
    }
  });
}

// If the matmuls are long compared with the transfers, a step in pieces is predicted faster, but
// not faster than a step with free transfers.
TEST(TensorMoves, HideBehindMatmulsInThePredictedStep) {
  for_every_run([](const RunConfig& config) {
    const auto predicted_s = [&](double bytes_per_s, bool overlap) {
      Hardware hardware = hardware_of(bytes_per_s, 0.0);
      hardware.memory_bytes_per_s = 1e13;
      return predicted_step_s(plan_of(config, overlap), hardware);
    };
    EXPECT_LT(predicted_s(2e9, true), predicted_s(2e9, false));
    EXPECT_GE(predicted_s(2e9, true), predicted_s(1e18, false));
  });
}

// torchtitan's selective recomputation gathers the inputs of products in layers again, and stores
// what its other collectives have made. With sequence parallelism a half of what a layer sends in F
// are gathers.
TEST(TensorMoves, EveryOtherProductGathersAgain) {
  for_every_run([](RunConfig config) {
    if (config.memory.recompute == Recompute::Full) return;
    Hardware hardware = hardware_of(1e9, 1e-6);
    hardware.practice = practice_of(TrainerKind::Torchtitan);
    const auto sent = [&](int64_t layers, Recompute recompute, ActionKind kind) {
      config.model.layers = layers;
      config.memory.recompute = recompute;
      const RunPlan plan = plan_of(config, false);
      return moves_of(plan, plan.pipeline[0], kind, hardware).sent_bytes;
    };
    const int64_t of_layer =
        sent(4, Recompute::None, ActionKind::F) - sent(3, Recompute::None, ActionKind::F);
    for (const ActionKind kind : {ActionKind::B, ActionKind::BW}) {
      const int64_t again = sent(3, Recompute::Selective, kind) - sent(3, Recompute::None, kind);
      EXPECT_EQ(again, config.parallel.sequence ? 3 * of_layer / 2 : 0);
    }
  });
}

// A trainer that hides sums behind the gradients of weights sends the same bytes and never waits
// longer; the more its transfers slow the products, the less it gains.
TEST(TensorMoves, BesideWeightGradientsNeverCostMore) {
  for_every_run([](const RunConfig& config) {
    const RunPlan plan = plan_of(config, false);
    for (const double bytes_per_s : {1e8, 1e9, 1e10, 1e15}) {
      Hardware waits = hardware_of(bytes_per_s, 1e-6);
      const TensorMoves whole = moves_of(plan, plan.pipeline[0], ActionKind::BW, waits);
      double least_s = 0.0;
      for (const double share : {0.0, 0.2, 0.5}) {
        Hardware hides = waits;
        hides.practice.hides_tp_sums = true;
        hides.overlap_share = share;
        const TensorMoves beside = moves_of(plan, plan.pipeline[0], ActionKind::BW, hides);
        EXPECT_EQ(beside.sent_bytes, whole.sent_bytes);
        EXPECT_LT(beside.seconds, whole.seconds);
        EXPECT_GE(beside.seconds, least_s);
        least_s = beside.seconds;
        EXPECT_EQ(moves_of(plan, plan.pipeline[0], ActionKind::F, hides).seconds,
                  moves_of(plan, plan.pipeline[0], ActionKind::F, waits).seconds);
      }
    }
  });
}

}  // namespace
}  // namespace trireme
