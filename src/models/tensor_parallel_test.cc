#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "comm/mesh_groups.h"
#include "comm/world.h"
#include "models/grad_addends.h"
#include "models/stage_fixture.h"
#include "sharding/redistribution_traffic.h"
#include "spec/stage_flow.h"

namespace trireme {
namespace {

using Values = std::map<std::string, std::vector<float>>;

// What the ranks of a run left.
struct Outcome {
  std::vector<float> losses;  // the same on every rank
  Values params, grads;       // of the whole model
};

// Elements of a rank's box in the whole parameter.
template <typename Visit>
void for_each_element(const ParamLayout& layout, Visit visit) {
  const bool is_matrix = layout.global.rank() == 2;
  const int64_t cols = is_matrix ? layout.global[1] : 1;
  const int64_t box_cols = is_matrix ? layout.extent[1] : 1;
  const int64_t first_col = is_matrix ? layout.begin[1] : 0;
  for (int64_t i = 0; i < layout.extent.num_elements(); ++i) {
    const int64_t row = layout.begin[0] + i / box_cols, col = first_col + i % box_cols;
    visit(size_t(row * cols + col), size_t(i));
  }
}

// Puts the parts of a tensor together. Ranks that hold the same element agree on every bit.
class Assembly {
 public:
  void add(const ParamLayout& layout, const std::vector<float>& part) {
    std::vector<float>& whole = values_[layout.name];
    std::vector<bool>& seen = seen_[layout.name];
    whole.resize(size_t(layout.global.num_elements()));
    seen.resize(whole.size());
    for_each_element(layout, [&](size_t global, size_t local) {
      ASSERT_TRUE(!seen[global] || std::memcmp(&whole[global], &part[local], sizeof(float)) == 0)
          << layout.name << ": ranks that hold the same element differ";
      whole[global] = part[local];
      seen[global] = true;
    });
  }
  Values take() {
    for (const auto& [name, seen] : seen_) {
      for (const bool element : seen) EXPECT_TRUE(element) << name << " has a gap";
    }
    return std::move(values_);
  }

 private:
  Values values_;
  std::map<std::string, std::vector<bool>> seen_;
};

std::vector<float> values_of(const TensorRef& x) {
  return {x.as<float>(), x.as<float>() + x.num_elements()};
}

Outcome run_stage(const ModelSpec& model, const KernelTable& kernels, int tp, const Way& way,
                  int cp = 1) {
  Outcome outcome;
  std::vector<Assembly> params(static_cast<size_t>(cp)), grads(static_cast<size_t>(cp));
  std::map<int64_t, float> losses;
  std::mutex mutex;
  run_ranks(tp * cp, [&](World& world) {
    MeshGroups groups(world, Mesh{.tp = tp, .cp = cp});
    TestStage stage(model, kernels, DType::F32, way, &groups.tp(), &groups.cp());
    GradAddends addends(groups.tp(), stage.layouts(), stage.grads());
    stage.forward();
    stage.backward();
    addends.sum();
    const std::lock_guard lock(mutex);
    for (int64_t i = 0; i < stage.num_tokens(); ++i) {
      const auto [loss, is_new] = losses.emplace(stage.whole_token(i), stage.losses()[size_t(i)]);
      EXPECT_TRUE(is_new || loss->second == stage.losses()[size_t(i)]);
    }
    const size_t cp_rank = size_t(groups.coords().cp);
    for (const ParamLayout& layout : stage.layouts()) {
      params[cp_rank].add(layout, values_of(stage.params().at(layout.name)));
      grads[cp_rank].add(layout, stage.grad(layout.name));
    }
  });
  for (const auto& [token, loss] : losses) outcome.losses.push_back(loss);
  for (size_t r = 0; r < size_t(cp); ++r) {
    outcome.params = params[r].take();
    for (const auto& [name, grad] : grads[r].take()) {
      std::vector<float>& sum = outcome.grads[name];
      sum.resize(grad.size());
      for (size_t i = 0; i < grad.size(); ++i) sum[i] += grad[i];
    }
  }
  return outcome;
}

double norm_of(const std::vector<float>& x) {
  double sum = 0.0;
  for (const float value : x) sum += double(value) * value;
  return std::sqrt(sum);
}

void expect_same_training(const Outcome& got, const Outcome& want) {
  double got_loss = 0.0, want_loss = 0.0, squares = 0.0;
  for (const float loss : got.losses) got_loss += loss;
  for (const float loss : want.losses) want_loss += loss;
  EXPECT_NEAR(got_loss, want_loss, 1e-6 * want_loss);
  for (const auto& [name, grad] : want.grads) squares += std::pow(norm_of(grad), 2.0);
  for (const auto& [name, grad] : want.grads) {
    std::vector<float> difference = got.grads.at(name);
    ASSERT_EQ(difference.size(), grad.size()) << name;
    for (size_t i = 0; i < grad.size(); ++i) difference[i] -= grad[i];
    EXPECT_LE(norm_of(difference), 2e-5 * std::max(norm_of(grad), 1e-3 * std::sqrt(squares)))
        << name;
  }
}

const KernelTable& fastest_kernels() {
  return supported_isas().empty() ? reference_kernels() : cpu_kernels(supported_isas().back());
}

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
    sum += redistribution_traffic(tp, move.change, move.global, move.dtype);
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
  for (const char* name : {"gpt2_dropout_tied", "llama", "microgpt"}) {
    const ModelSpec model = model_of(name);
    for (const int tp : {1, 2, 4}) {
      for (const bool sequence_parallel : {false, true}) {
        for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
          for (const bool split : {false, true}) {
            SCOPED_TRACE(fmt::format("{}: tp {} sequence {} recompute {} split {}", name, tp,
                                     sequence_parallel, int(recompute), split));
            const Way way{.recompute = recompute,
                          .split_backward = split,
                          .sequence_parallel = sequence_parallel};
            run_ranks(tp, [&](World& world) {
              Group& group = world.group();
              TestStage stage(model, fastest_kernels(), DType::F32, way, &group);
              const StageMoves moves =
                  stage_moves(stage_flow(model, whole_model(model), stage.shape()), recompute);
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
    if (model.capacity_factor > 0.0) continue;  // counts the tokens of whole sequences
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
