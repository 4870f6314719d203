#include "train/throughput.h"

#include <algorithm>

#include "comm/local/sole_rank.h"
#include "data/synthetic_source.h"
#include "device/host.h"
#include "kernels/ceilings.h"
#include "optim/lr_schedule.h"
#include "train/engine.h"
#include "train/kernel_choice.h"

namespace trireme {
namespace {

constexpr double kTimedSeconds = 5.0;
constexpr int64_t kMostSteps = 100000;

double median(std::vector<double> values) {
  const auto middle = values.begin() + int64_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

Result<Throughput> measure_throughput(const RunConfig& config, const HostFacts& host,
                                      int64_t num_warmup, int64_t num_steps) {
  const int64_t begin_ns = monotonic_ns();
  TRIREME_TRY(choice, choose_kernels(config.run.isa));
  TRIREME_TRY(plan, make_plan(config, host));
  TRIREME_TRY(schedule, LrSchedule::make(config.optim, config.run.steps));
  const SyntheticSource source(config.run.seed, plan.model.vocab_size);
  SoleRank rank;
  Engine engine(plan, *choice.kernels, source, rank.group());
  engine.init_params(config.run.seed);
  const ComputeCeilings ceilings = measure_compute_ceilings(engine.ctx().stream, choice.isa);

  Throughput result;
  result.first_step_after_s = double(monotonic_ns() - begin_ns) * 1e-9;
  result.peak_flops =
      plan.shape.compute == DType::F32 ? ceilings.fp32_flops_per_s : ceilings.bf16_flops_per_s;
  uint64_t next_sample = 0;
  const auto run_step = [&](int64_t step) {
    const int64_t step_begin_ns = monotonic_ns();
    const StepResult outcome =
        engine.step(next_sample, schedule.at(std::min(step, config.run.steps)));
    next_sample += uint64_t(plan.global_sequences);
    result.final_loss = outcome.loss_sum / double(std::max<int64_t>(1, outcome.valid_tokens));
    return double(monotonic_ns() - step_begin_ns) * 1e-9;
  };
  int64_t step = 0;
  while (step < num_warmup) run_step(++step);
  double timed_s = 0.0;
  const auto enough = [&] {
    const int64_t timed = int64_t(result.step_seconds.size());
    return num_steps > 0 ? timed >= num_steps
                         : timed >= 3 && (timed_s >= kTimedSeconds || timed >= kMostSteps);
  };
  while (!enough()) {
    result.step_seconds.push_back(run_step(++step));
    timed_s += result.step_seconds.back();
  }
  result.median_step_s = median(result.step_seconds);
  result.tokens_per_s = double(plan.tokens_per_step()) / result.median_step_s;
  result.mfu = result.tokens_per_s * plan.flops_per_token.total() / result.peak_flops;
  result.arena_peak_bytes = engine.peak_bytes();
  result.rss_peak_bytes = rss_peak_bytes();
  return result;
}

}  // namespace trireme
