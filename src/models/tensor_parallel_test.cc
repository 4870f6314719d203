#include <fmt/format.h>
#include <gtest/gtest.h>

#include "collectives/move_collective.h"
#include "graph/moves.h"
#include "models/split_stage.h"
#include "sharding/redistribution_fixture.h"

namespace trireme {
namespace {

TEST(TensorParallel, InitialParametersArePartsOfTheWhole) {
  for (const char* name : kModels) {
    const ModelSpec model = model_of(name);
    const Outcome one = run_stage(model, fastest_kernels(), 1, {});
    for (const int tp : {2, 4})
      EXPECT_EQ(run_stage(model, fastest_kernels(), tp, {}).params, one.params);
  }
}

TEST(TensorParallel, LossesAndEveryGradientAreThoseOfOneRank) {
  for (const char* name : kModels) {
    const ModelSpec model = model_of(name);
    const Outcome one = run_stage(model, fastest_kernels(), 1, {});
    for (const int tp : {1, 2, 4}) {
      for (const bool sequence_parallel : {false, true}) {
        for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
          for (const bool split : {false, true}) {
            const Way way{.recompute = recompute,
                          .split_backward = split,
                          .tied_use_apart = split,
                          .sequence_parallel = sequence_parallel};
            SCOPED_TRACE(fmt::format("{}: tp {} sequence {} recompute {} split {}", name, tp,
                                     sequence_parallel, int(recompute), split));
            expect_same_training(run_stage(model, fastest_kernels(), tp, way), one);
          }
        }
      }
    }
  }
}

Traffic predicted(Group& tp, const std::vector<TensorMove>& moves) {
  Traffic sum;
  for (const TensorMove& move : moves) {
    if (!move.in_pieces) {
      sum += redistribution_traffic(tp, move.change, move.global, move.dtype);
      continue;
    }
    const PieceTraffic pieces =
        piece_traffic(move.change, move.global, kRowPieces, tp.size(), tp.rank());
    const int64_t bytes = size_of(move.dtype);
    sum += {pieces.sent_elements * bytes, pieces.received_elements * bytes, pieces.messages,
            pieces.messages};
    for (const MoveCollective& piece : pieces.sums) {
      const TensorRef flat{nullptr, move.dtype, Shape{piece.count}};
      sum += tp.driver().predict({.in = flat, .out = flat});
    }
  }
  return sum;
}

void expect_same_traffic(const Traffic& got, const Traffic& want, const char* what) {
  EXPECT_EQ(got.sent_bytes, want.sent_bytes) << what;
  EXPECT_EQ(got.received_bytes, want.received_bytes) << what;
  EXPECT_EQ(got.sent_messages, want.sent_messages) << what;
}

Traffic difference(const Traffic& after, const Traffic& before) {
  return {after.sent_bytes - before.sent_bytes, after.received_bytes - before.received_bytes,
          after.sent_messages - before.sent_messages,
          after.received_messages - before.received_messages};
}

// What the layers do move is what the flow of the stage, which is checked, says that they move.
TEST(TensorParallel, TrafficIsThePredictedToTheByte) {
  for (const char* name : {"gpt2_dropout_tied", "llama", "microgpt", "scaled",
                           "gpt2_dropout_lora_tied", "parallel_lora", "llama_lora_latent"}) {
    const ModelSpec model = model_of(name);
    for (const int tp : {1, 2, 4}) {
      for (const bool sequence_parallel : {false, true}) {
        for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
          for (const bool split : {false, true}) {
            SCOPED_TRACE(fmt::format("{}: tp {} sequence {} recompute {} split {}", name, tp,
                                     sequence_parallel, int(recompute), split));
            const Way way{.recompute = recompute,
                          .split_backward = split,
                          .sequence_parallel = sequence_parallel,
                          .tp_overlap = recompute != Recompute::Selective};
            run_ranks(tp, [&](World& world) {
              Group& group = world.group();
              TestStage stage(model, fastest_kernels(), DType::F32, way, &group);
              const StageMoves moves = stage_moves(model, whole_model(model), stage.shape());
              const Traffic start = group.traffic();
              stage.forward();
              const Traffic middle = group.traffic();
              stage.backward();
              const Traffic end = group.traffic();
              expect_same_traffic(difference(middle, start), predicted(group, moves.forward), "F");
              Traffic backward = predicted(group, moves.backward_input);
              backward += predicted(group, moves.backward_weight);
              for (int times = 0; times < (split ? 2 : 1); ++times) {
                backward += predicted(group, moves.recompute);
              }
              expect_same_traffic(difference(end, middle), backward, "B and W");
            });
          }
        }
      }
    }
  }
}

// Sequences over the ranks of cp, alone and with tp: every rank has the gradient of its tokens.
TEST(ContextParallel, LossesAndEveryGradientAreThoseOfOneRank) {
  for (const char* name : kModels) {
    const ModelSpec model = model_of(name);
    const Outcome one = run_stage(model, fastest_kernels(), 1, {});
    for (const int cp : {2, 3}) {
      for (const int tp : {1, 2}) {
        for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
          const bool split = recompute == Recompute::Selective;
          const Way way{.recompute = recompute,
                        .split_backward = split,
                        .sequence_parallel = recompute != Recompute::None};
          SCOPED_TRACE(fmt::format("{}: cp {} tp {} recompute {}", name, cp, tp, int(recompute)));
          expect_same_training(run_stage(model, fastest_kernels(), tp, way, cp), one);
        }
      }
    }
  }
}

// One rank's sums have one addend: the layers do the same with a group of one as without one.
TEST(TensorParallel, OneRankWithItsSequenceInOnePartHasTheSameBits) {
  for (const char* name : kModels) {
    const ModelSpec model = model_of(name);
    const Outcome one = run_stage(model, fastest_kernels(), 1, {});
    const Outcome parts = run_stage(model, fastest_kernels(), 1, {.sequence_parallel = true});
    EXPECT_EQ(parts.losses, one.losses) << name;
    EXPECT_EQ(parts.grads, one.grads) << name;
  }
}

// As many slices whatever tp is: no rank adds up what the others would have added otherwise.
TEST(TensorParallel, InSlicesEveryRankLeavesTheBitsOfOne) {
  for (const char* name : kModels) {
    const ModelSpec model = model_of(name);
    const bool is_refused = model.has_experts() || model.parallel_block || model.has_adapters() ||
                            model.qk_norm || model.has_latents();
    if (is_refused) continue;  // in this mode
    const int slices = most_slices(model);
    EXPECT_GE(slices, 2) << name;
    for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
      Way way{.recompute = recompute, .slices = slices};
      const Outcome one = run_stage(model, fastest_kernels(), 1, way);
      for (int tp = 2; tp <= slices; tp *= 2) {
        for (way.tp_overlap = false;; way.tp_overlap = true) {
          SCOPED_TRACE(fmt::format("{}: tp {} of {} slices, recompute {}, overlap {}", name, tp,
                                   slices, int(recompute), way.tp_overlap));
          const Outcome split = run_stage(model, fastest_kernels(), tp, way);
          EXPECT_EQ(split.losses, one.losses);
          for (const auto& [param, grad] : one.grads) {
            EXPECT_EQ(split.grads.at(param), grad) << param;
          }
          if (way.tp_overlap) break;
        }
      }
    }
  }
}

// Rows that are multiplied while others move have the same products; sums of parts, which go round
// more than two ranks, another order.
TEST(TensorParallel, MovingInPiecesChangesOrdersOfSumsAlone) {
  for (const char* name : kModels) {
    const ModelSpec model = model_of(name);
    const Outcome one = run_stage(model, fastest_kernels(), 1, {});
    for (const int tp : {1, 2, 4}) {
      for (const bool sequence_parallel : {false, true}) {
        for (const Recompute recompute : {Recompute::None, Recompute::Full}) {
          SCOPED_TRACE(fmt::format("{}: tp {} sequence {} recompute {}", name, tp,
                                   sequence_parallel, int(recompute)));
          Way way{.recompute = recompute, .sequence_parallel = sequence_parallel};
          const Outcome whole = run_stage(model, fastest_kernels(), tp, way);
          way.tp_overlap = true;
          const Outcome pieces = run_stage(model, fastest_kernels(), tp, way);
          expect_same_training(pieces, one);
          if (tp > 2 && sequence_parallel) continue;
          EXPECT_EQ(pieces.losses, whole.losses);
          EXPECT_EQ(pieces.grads, whole.grads);
        }
      }
    }
  }
}

// Which way a micro-batch is computed changes no bit on any number of ranks.
TEST(TensorParallel, RecomputationAndSplittingChangeNoBit) {
  for (const char* name : {"llama_dropout", "moe_sigmoid"}) {
    const ModelSpec model = model_of(name);
    for (const bool sequence_parallel : {false, true}) {
      const Outcome base =
          run_stage(model, fastest_kernels(), 2, {.sequence_parallel = sequence_parallel});
      for (const Recompute recompute : {Recompute::Selective, Recompute::Full}) {
        const Outcome other = run_stage(model, fastest_kernels(), 2,
                                        {.recompute = recompute,
                                         .split_backward = true,
                                         .sequence_parallel = sequence_parallel});
        EXPECT_EQ(other.losses, base.losses);
        EXPECT_EQ(other.grads, base.grads);
      }
    }
  }
}

}  // namespace
}  // namespace trireme
