// How many flipped bits the checks for silent corruption find, by the place of the bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <iostream>
#include <map>

#include "train/corruption_checks.h"
#include "train/corruption_fixture.h"
#include "train/kernel_choice.h"

namespace trireme {
namespace {

// Where a bit is flipped, once, on one rank.
enum class Fault : uint8_t {
  Param,  // as layers read it, between two steps
  Master,
  ExpAvg,
  ExpAvgSq,
  Addend,    // the gradient of a rank's samples, before it is summed over dp
  Gradient,  // the sum, on one rank
  Operand,   // of the products of one micro-batch
};
constexpr std::array kFaultNames = {"parameter",          "master weight",        "first moment",
                                    "second moment",      "addend of a gradient", "summed gradient",
                                    "operand of products"};
constexpr std::array kPrefixes = {"", "master/", "exp_avg/", "exp_avg_sq/"};

struct Recall {
  int faults = 0;     // that have changed a bit of the next state
  int by_state = 0;   // of them found by comparing the state
  int by_replay = 0;  // of them found by a replay of the step
  int by_either = 0;
  int no_effect = 0;
};

// Makes the fault in one step after another, each from the same state.
class RecallTrial {
 public:
  RecallTrial(const RunPlan& plan, World& world)
      : world_(world),
        source_(plan.model.vocab_size),
        engine_(plan, world, *choose_kernels(IsaChoice::Auto).value().kernels, source_) {
    engine_.init_params(1);
    engine_.step(0, 1e-2);
    state_ = state_tensors(engine_);
    grads_ = grad_tensors(engine_);
    state_check_.emplace(engine_);
    replay_.emplace(engine_);
    before_.emplace(state_);
    engine_.step(kFirst, 1e-2);
    after_.emplace(state_);
  }
  ~RecallTrial() { engine_.call_before_update(this, {}); }

  bool has(Fault fault) const {
    return fault > Fault::ExpAvgSq || !tensors_of_kind(state_, kPrefixes[size_t(fault)]).empty();
  }

  void run(Fault fault, BitClass bits, std::mt19937_64& random, Recall& recall) {
    before_->restore();
    const int culprit = int(random() % 2);
    const bool is_culprit = culprit == world_.rank();
    const bool is_state = fault <= Fault::ExpAvgSq;
    const bool is_grad = fault == Fault::Addend || fault == Fault::Gradient;
    const Flip flip = draw_flip(
        is_grad ? grads_ : tensors_of_kind(state_, is_state ? kPrefixes[size_t(fault)] : ""), bits,
        random);
    engine_.optimizer().set_num_updates(1);
    if (is_culprit && is_state) flip.apply();
    const bool found_at_once = is_state && !state_check_->run(2).ok();
    replay_->compute(kFirst);
    if (is_culprit && !is_state) arm(fault, flip);
    addends_.clear();
    engine_.hash_addends(&addends_);
    const StepResult result = engine_.step(kFirst, 1e-2);
    source_.on_read = {};
    engine_.call_before_update(this, {});
    engine_.hash_addends(nullptr);
    const Status replayed = replay_->compare(2, result, addends_);
    const bool found_by_replay = !replayed.ok();
    if (found_by_replay) expect_cause(replayed.error().message, fault, culprit);
    const bool found_by_state = found_at_once || !state_check_->run(2).ok();
    int64_t has_effect = after_->is_unchanged() ? 0 : 1;
    world_.group().all_reduce({&has_effect, DType::I64, Shape{1}});
    if (has_effect == 0) {
      ++recall.no_effect;
      if (!is_state) return;
    }
    ++recall.faults;
    recall.by_state += found_by_state ? 1 : 0;
    recall.by_replay += found_by_replay ? 1 : 0;
    recall.by_either += found_by_state || found_by_replay ? 1 : 0;
  }

 private:
  static constexpr uint64_t kFirst = 4;

  // What a replay says of the rank that was wrong.
  static void expect_cause(const std::string& message, Fault fault, int culprit) {
    const std::string cause =
        fault == Fault::Gradient
            ? "before the sums over ranks all bits were the same, so a message or a sum was wrong"
            : fmt::format("before the sums over ranks only rank {} had other bits", culprit);
    // Rounding may hide a low bit of an operand from every gradient, but not from the loss.
    const bool is_only_loss =
        fault == Fault::Operand &&
        message.find("only the loss of a rank was wrong") != std::string::npos;
    EXPECT_TRUE(is_only_loss || message.find(cause) != std::string::npos) << message;
  }

  // The fault happens while the step computes.
  void arm(Fault fault, const Flip& flip) {
    if (fault == Fault::Gradient) {
      engine_.call_before_update(this, [flip] { flip.apply(); });
      return;
    }
    num_reads_ = 0;
    source_.on_read = [this, fault, flip](uint64_t) {
      ++num_reads_;
      // Each rank has two micro-batches. The second one adds to the gradient of the first.
      if (fault == Fault::Addend && num_reads_ == 2) flip.apply();
      if (fault == Fault::Operand && num_reads_ <= 2) flip.apply();
    };
  }

  World& world_;
  WatchedSource source_;
  Engine engine_;
  std::vector<StateTensor> state_, grads_;
  std::optional<StateCheck> state_check_;
  std::optional<StepReplay> replay_;
  std::optional<KeptState> before_, after_;
  std::vector<uint64_t> addends_;
  int num_reads_ = 0;
};

using RecallTable = std::map<std::pair<Fault, BitClass>, Recall>;

RecallTable measure_recall(int num_trials, bool is_bf16, uint64_t seed) {
  const RunPlan plan = tiny_plan(tiny_run(2, is_bf16));
  RecallTable table;
  run_ranks(2, {}, [&](World& world) {
    RecallTrial trial(plan, world);
    RecallTable own;
    std::mt19937_64 random(seed);  // the same on both ranks
    for (int fault = 0; fault < int(kFaultNames.size()); ++fault) {
      if (!trial.has(Fault(fault))) continue;
      for (const BitClass bits : kBitClasses) {
        Recall& recall = own[{Fault(fault), bits}];
        for (int i = 0; i < num_trials; ++i) trial.run(Fault(fault), bits, random, recall);
      }
    }
    if (world.rank() == 0) table = own;
  });
  return table;
}

void print(const RecallTable& table) {
  for (const auto& [key, recall] : table) {
    std::cout << fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n",
                             kFaultNames[size_t(key.first)], kBitClassNames[size_t(key.second)],
                             recall.faults, recall.by_state, recall.by_replay, recall.by_either,
                             recall.no_effect);
  }
}

void expect_recall(const RecallTable& table) {
  for (const auto& [key, recall] : table) {
    const auto& [fault, bits] = key;
    const std::string what =
        fmt::format("{} {}", kFaultNames[size_t(fault)], kBitClassNames[size_t(bits)]);
    EXPECT_EQ(recall.by_either, recall.faults) << what;
    const bool is_state = fault <= Fault::ExpAvgSq;
    if (is_state || fault == Fault::Gradient) {
      EXPECT_EQ(recall.by_state, recall.faults) << what;
    }
    // Both computations of a replay read a state that is wrong before them.
    EXPECT_EQ(recall.by_replay, is_state ? 0 : recall.faults) << what;
  }
}

TEST(CorruptionRecall, EveryFlippedBitWithAnEffectIsFoundInACheckedStep) {
  for (const bool is_bf16 : {false, true}) expect_recall(measure_recall(6, is_bf16, 17));
}

// ---- In full, for the published tables

TEST(CorruptionInFull, DISABLED_RecallByKindAndBits) {
  for (const bool is_bf16 : {false, true}) {
    const RecallTable table = measure_recall(200, is_bf16, 1);
    std::cout << (is_bf16 ? "bf16\n" : "fp32\n");
    print(table);
    expect_recall(table);
  }
}

}  // namespace
}  // namespace trireme
