#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "data/synthetic_source.h"
#include "kernels/loss/cross_entropy.h"
#include "layout_case.h"
#include "layout_laws.h"
#include "planner/make_plan.h"

namespace trireme {
namespace {

// Sequences that end early, some at their start, with gaps inside. So every micro-batch and every
// part of a sequence has a different number of valid targets, some of them none.
class PaddedSource : public TokenSource {
 public:
  explicit PaddedSource(int64_t vocab_size) : whole_(3, vocab_size) {}
  int64_t vocab_size() const override { return whole_.vocab_size(); }
  void read_sample(uint64_t global_sample, std::span<int32_t> inputs,
                   std::span<int32_t> targets) const override {
    whole_.read_sample(global_sample, inputs, targets);
    for (size_t t = 0; t < targets.size(); ++t) {
      if (!is_valid(global_sample, t, targets.size())) targets[t] = kIgnoredTarget;
    }
  }
  static bool is_valid(uint64_t sample, size_t t, size_t seq_len) {
    const size_t end = size_t(sample * 5 + sample / 3) % (seq_len + 1);
    return t < end && (t + sample) % 4 != 1;
  }

 private:
  SyntheticSource whole_;
};

LayoutRun run_padded(const Case& c) {
  const RunPlan plan = plan_of(c);
  const PaddedSource source(plan.model.vocab_size);
  return run_layout(plan, {.source = &source});
}

// Runs one step from the initial parameters with the samples of `step`.
LayoutRun run_step(const RunPlan& plan, int step) {
  const PaddedSource source(plan.model.vocab_size);
  return run_layout(plan, {.first = step, .end = step + 1, .source = &source, .evaluates = false});
}

// All sequences of a step are one micro-batch on one rank, so only tokens are summed.
RunPlan plan_of_whole(const std::string& family) {
  RunConfig config = config_of({.family = family, .is_wide = true});
  config.batch.micro_sequences = config.batch.global_sequences;
  Result<RunPlan> plan = make_plan(config, {});
  TRIREME_CHECK(plan.ok(), plan.error().message);
  return *plan;
}

int64_t count_valid(uint64_t step, const RunPlan& plan) {
  int64_t count = 0;
  for (int64_t i = 0; i < plan.global_sequences; ++i) {
    const uint64_t sample = step * uint64_t(plan.global_sequences) + uint64_t(i);
    for (int64_t t = 0; t < plan.model.seq_len; ++t) {
      count += PaddedSource::is_valid(sample, size_t(t), size_t(plan.model.seq_len)) ? 1 : 0;
    }
  }
  return count;
}

// However valid targets are spread over ranks and micro-batches, the loss is the mean over those of
// the step, and every gradient is that of this mean.
TEST(ParityOfValidTokens, LossesAndGradientsAreThoseOfTheWholeStep) {
  const Case layouts[] = {
      {},
      {.dp = 4},
      {.dp = 2, .pp = 2, .schedule = ScheduleKind::ZbH1, .zero = 2},
      {.pp = 4, .schedule = ScheduleKind::Interleaved, .recompute = Recompute::Full},
      {.tp = 2, .sequence = true},
      {.cp = 4},
      {.cp = 2, .context = ContextExchange::AllToAll},
      {.dp = 2, .zero = 3, .tp = 2, .cp = 2},
      {.dp = 4, .zero = 1, .ep = 2},
      {.dp = 2, .cp = 2, .ep = 4}};
  for (const char* family : {"gpt2", "llama", "moe"}) {
    const RunPlan whole = plan_of_whole(family);
    for (int step = 0; step < 5; ++step) {
      const LayoutRun want = run_step(whole, step);
      for (Case c : layouts) {
        c.family = family;
        c.is_wide = true;
        if (!is_possible(c)) continue;
        SCOPED_TRACE(fmt::format("step {} of {}", step, c.name()));
        const RunPlan plan = plan_of(c);
        const LayoutRun run = run_step(plan, step);
        EXPECT_EQ(run.differences, "");
        EXPECT_EQ(run.valid_tokens.front(), count_valid(uint64_t(step), plan));
        EXPECT_NEAR(run.losses.front(), want.losses.front(), 1e-6 * want.losses.front());
        expect_near(run, want);
      }
    }
  }
}

TEST(ParityOfValidTokens, EverythingButTpCpAndEpHasTheBitsOfOneRank) {
  const LayoutRun one = run_padded({});
  for (const Case& c : {Case{.dp = 4, .zero = 3}, Case{.pp = 4, .schedule = ScheduleKind::ZbV},
                        Case{.dp = 2, .pp = 2, .schedule = ScheduleKind::Dualpipe, .zero = 1}}) {
    SCOPED_TRACE(c.name());
    EXPECT_EQ(difference(run_padded(c), one), "");
  }
}

}  // namespace
}  // namespace trireme
