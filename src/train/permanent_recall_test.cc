// How many faults that are always the same the checks for silent corruption find, and whether they
// name the right rank.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <iostream>

#include "device/host.h"
#include "train/corruption_checks.h"
#include "train/corruption_fixture.h"
#include "train/kernel_choice.h"

namespace trireme {
namespace {

struct PermanentRecall {
  int faults = 0;         // that have changed a bit of the next state
  int by_state = 0;       // of them found by comparing the state
  int by_replay = 0;      // by a replay on the same rank
  int by_elsewhere = 0;   // by a replay on another rank
  int named_alone = 0;    // of these: the right rank is named, and no other one
  int named_among = 0;    // it is named together with others
  int named_another = 0;  // only others are named
  int no_effect = 0;
};

// One rank reads a bit of one parameter wrong in one of its two micro-batches, in every computation
// that it makes.
class PermanentTrial {
 public:
  PermanentTrial(const RunPlan& plan, World& world)
      : world_(world),
        source_(plan.model.vocab_size),
        engine_(plan, world, *choose_kernels(IsaChoice::Auto).value().kernels, source_) {
    engine_.init_params(1);
    engine_.step(0, 1e-2);
    state_ = state_tensors(engine_);
    state_check_.emplace(engine_);
    replay_.emplace(engine_);
    elsewhere_.emplace(engine_, 1);
    before_.emplace(state_);
    engine_.step(kFirst, 1e-2);
    after_.emplace(state_);
  }

  void run(BitClass bits, std::mt19937_64& random, PermanentRecall& recall) {
    before_->restore();
    engine_.optimizer().set_num_updates(1);
    const int size = world_.group().size(), culprit = int(random() % uint64_t(size));
    const Flip flip = draw_flip(tensors_of_kind(state_, ""), bits, random);
    if (world_.rank() == culprit) source_.on_read = [flip](uint64_t) { flip.apply(); };
    replay_->compute(kFirst);
    elsewhere_->compute(kFirst);
    addends_.clear();
    engine_.hash_addends(&addends_);
    const StepResult result = engine_.step(kFirst, 1e-2);
    engine_.hash_addends(nullptr);
    int64_t has_effect = after_->is_unchanged() ? 0 : 1;
    world_.group().all_reduce({&has_effect, DType::I64, Shape{1}});
    const bool by_state = !state_check_->run(2).ok();
    const bool by_replay = !replay_->compare(2, result, addends_).ok();
    const Status elsewhere = elsewhere_->compare(2, result, addends_);
    source_.on_read = {};
    if (has_effect == 0) {
      ++recall.no_effect;
      return;
    }
    ++recall.faults;
    recall.by_state += by_state ? 1 : 0;
    recall.by_replay += by_replay ? 1 : 0;
    if (elsewhere.ok()) return;
    ++recall.by_elsewhere;
    count_named(elsewhere.error().message, culprit, recall);
  }

 private:
  static constexpr uint64_t kFirst = 6;

  void count_named(const std::string& message, int culprit, PermanentRecall& recall) const {
    int others = 0;
    bool is_named = false;
    for (int rank = 0; rank < world_.group().size(); ++rank) {
      const bool named =
          message.find(fmt::format("rank {} on host {}", rank, host_name())) != std::string::npos;
      if (rank == culprit) is_named = named;
      if (rank != culprit) others += named ? 1 : 0;
    }
    recall.named_alone += is_named && others == 0 ? 1 : 0;
    recall.named_among += is_named && others > 0 ? 1 : 0;
    recall.named_another += is_named ? 0 : 1;
  }

  World& world_;
  WatchedSource source_;
  Engine engine_;
  std::vector<StateTensor> state_;
  std::optional<StateCheck> state_check_;
  std::optional<StepReplay> replay_;
  std::optional<ReplayElsewhere> elsewhere_;
  std::optional<KeptState> before_, after_;
  std::vector<uint64_t> addends_;
};

using PermanentTable = std::array<PermanentRecall, std::size(kBitClasses)>;

PermanentTable measure_permanent(int num_trials, int dp, bool is_bf16, uint64_t seed) {
  const RunPlan plan = tiny_plan(tiny_run(dp, is_bf16));
  PermanentTable table;
  run_ranks(dp, {}, [&](World& world) {
    PermanentTrial trial(plan, world);
    PermanentTable own;
    std::mt19937_64 random(seed);  // the same on all ranks
    for (const BitClass bits : kBitClasses) {
      for (int i = 0; i < num_trials; ++i) trial.run(bits, random, own[size_t(bits)]);
    }
    if (world.rank() == 0) table = own;
  });
  return table;
}

void expect_permanent_recall(const PermanentTable& table, int dp) {
  for (const PermanentRecall& recall : table) {
    EXPECT_EQ(recall.by_elsewhere, recall.faults);
    EXPECT_EQ(recall.by_state + recall.by_replay, 0) << "they see the same bits each time";
    EXPECT_EQ(recall.named_another, 0);
    EXPECT_EQ(recall.named_alone + recall.named_among, recall.faults);
    // A low bit may change nothing with the parameters after the step, and then nobody is outvoted.
    if (dp > 2) {
      EXPECT_GE(recall.named_alone, recall.faults - 1 - recall.faults / 100);
    }
  }
}

TEST(PermanentRecall, EveryFaultWithAnEffectIsFoundElsewhereAndItsRankNamed) {
  for (const int dp : {2, 3}) {
    for (const bool is_bf16 : {false, true}) {
      expect_permanent_recall(measure_permanent(8, dp, is_bf16, 5), dp);
    }
  }
}

// For the published table.
TEST(CorruptionInFull, DISABLED_RecallOfPermanentFaults) {
  for (const int dp : {2, 3}) {
    for (const bool is_bf16 : {false, true}) {
      const PermanentTable table = measure_permanent(200, dp, is_bf16, 1);
      for (const BitClass bits : kBitClasses) {
        const PermanentRecall& recall = table[size_t(bits)];
        std::cout << fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", dp,
                                 is_bf16 ? "bf16" : "fp32", kBitClassNames[size_t(bits)],
                                 recall.faults, recall.by_state, recall.by_replay,
                                 recall.by_elsewhere, recall.named_alone, recall.no_effect);
      }
      expect_permanent_recall(table, dp);
    }
  }
}

}  // namespace
}  // namespace trireme
