#include "session/throughput.h"

#include <algorithm>

#include "base/order_statistics.h"
#include "base/philox.h"
#include "comm/world.h"
#include "compile/this_machine.h"
#include "data/image_source.h"
#include "data/synthetic_source.h"
#include "device/host.h"
#include "kernels/ceilings.h"
#include "optim/lr_schedule.h"
#include "planner/make_plan.h"
#include "session/session_data.h"
#include "train/engine.h"
#include "train/kernel_choice.h"

namespace trireme {
namespace {

constexpr double kTimedSeconds = 5.0;
constexpr int64_t kMostSteps = 100000;

struct StepCounts {
  int64_t warmup = 0;
  int64_t timed = 0;  // 0: as many as fit into kTimedSeconds
  bool times_ops = false;
};

// Number of steps to time: `asked`, or as many as fit into the time. It is the same on all ranks.
int64_t agree_on_steps(Group& world, int64_t asked, double step_s) {
  int64_t steps =
      asked > 0 ? asked : std::clamp<int64_t>(int64_t(kTimedSeconds / step_s), 3, kMostSteps);
  world.broadcast({&steps, DType::I64, Shape{1}}, 0);
  return steps;
}

OpComparison ops_of(const RunPlan& plan, const Engine& engine, const ComputeCeilings& ceilings,
                    int64_t steps) {
  const std::vector<OpTimes> priced =
      predict_ops(plan, engine.rank_plan(), with_own_kernels(assumed_hardware(ceilings)));
  return {priced, mean_ops(priced, engine.op_seconds(), steps)};
}

// Runs on every rank; rank 0 fills in the result.
void measure_rank(World& world, const RunPlan& plan, const KernelChoice& choice,
                  const TokenSource& source, const LrSchedule& schedule, const StepCounts& counts,
                  int64_t begin_ns, Throughput& result) {
  Engine engine(plan, world, *choice.kernels, source);
  engine.init_params(plan.config.run.seed);
  const bool reports = world.rank() == 0;
  ComputeCeilings ceilings;
  if (reports) {
    ceilings = measure_compute_ceilings(engine.ctx().stream, choice.isa);
    result.first_step_after_s = double(monotonic_ns() - begin_ns) * 1e-9;
  }
  world.group().barrier();
  uint64_t next_sample = 0;
  int64_t step = 0;
  double loss = 0.0;
  const auto run_step = [&] {
    const int64_t step_begin_ns = monotonic_ns();
    ++step;
    const StepResult outcome =
        engine.step(next_sample, schedule.at(std::min(step, plan.config.run.steps)), false,
                    next_sample + uint64_t(plan.global_sequences));
    next_sample += uint64_t(plan.global_sequences);
    loss = outcome.loss_sum / double(std::max<int64_t>(1, outcome.valid_tokens));
    return double(monotonic_ns() - step_begin_ns) * 1e-9;
  };
  double warm_s = 1.0;
  while (step < counts.warmup) warm_s = run_step();
  const int64_t timed = agree_on_steps(world.group(), counts.timed, warm_s);
  std::vector<double> seconds;
  engine.time_ops(counts.times_ops);
  for (int64_t i = 0; i < timed; ++i) seconds.push_back(run_step());
  if (!reports) return;
  ceilings = greater_of(ceilings, measure_compute_ceilings(engine.ctx().stream, choice.isa));
  result.peak_flops =
      plan.shape.compute == DType::BF16 ? ceilings.bf16_flops_per_s : ceilings.fp32_flops_per_s;
  result.peak_flops *= plan.num_ranks();
  if (counts.times_ops) result.ops = ops_of(plan, engine, ceilings, timed);
  result.step_seconds = seconds;
  result.final_loss = loss;
  result.arena_peak_bytes = engine.peak_bytes();
}

// Returns a few images of random bytes. They are held in memory, because a step would otherwise
// spend much of its time on generating images.
std::shared_ptr<const ImageSet> random_images(const ModelSpec& model, uint64_t seed) {
  constexpr int64_t kImages = 64;
  const ImageExtents extents{model.image_size, model.image_size, model.image_channels};
  const RngKey key = rng_key(seed, "throughput.images");
  std::vector<uint8_t> pixels(size_t(kImages * extents.bytes()));
  for (size_t i = 0; i < pixels.size(); ++i) {
    pixels[i] = uint8_t(philox(key, counter_of(0, i))[0]);
  }
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < kImages; ++i) labels.push_back(int32_t(i % model.vocab_size));
  return std::make_shared<HeldImages>(extents, model.vocab_size, std::move(pixels),
                                      std::move(labels));
}

// Returns generated tokens or images, whatever data the configuration names.
std::unique_ptr<TokenSource> generated_source(const ModelSpec& model, uint64_t seed) {
  if (!model.reads_images()) return std::make_unique<SyntheticSource>(seed, model.vocab_size);
  return std::make_unique<ImageSource>(random_images(model, seed), seed, ImageAugmentation{});
}

}  // namespace

Result<Throughput> measure_throughput(const RunConfig& config, const HostFacts& host,
                                      int64_t num_warmup, int64_t num_steps, bool times_ops,
                                      const OpenInput& open_input) {
  const int64_t begin_ns = monotonic_ns();
  TRIREME_TRY(choice, choose_kernels(config.run.isa));
  HostFacts facts = host;
  if (config.model.vocab_size == 0) {  // then a run has the size of the data's vocabulary
    TRIREME_TRY(vocab_size, data_vocab_size(config, open_input));
    facts.data_vocab_size = vocab_size;
  }
  TRIREME_TRY_DONE(check_runnable(with_defaults(config.model, 0)));
  TRIREME_TRY(plan, make_plan(config, facts));
  const LrSchedule schedule(config.optim, config.run.steps);
  const auto source = generated_source(plan.model, plan.config.run.seed);
  Throughput result;
  run_ranks(plan.num_ranks(), {.timeout_s = config.run.comm_timeout_s}, [&](World& world) {
    measure_rank(world, plan, choice, *source, schedule, {num_warmup, num_steps, times_ops},
                 begin_ns, result);
  });
  result.median_step_s = upper_median(result.step_seconds);
  result.tokens_per_s = double(plan.tokens_per_step()) / result.median_step_s;
  const double flops_per_s = result.tokens_per_s * plan.flops_per_token.total();
  result.peak_flops = std::max(result.peak_flops, flops_per_s);  // a step may beat the ceiling
  result.peak_flops_of_rank = result.peak_flops / plan.num_ranks();
  result.mfu = flops_per_s / result.peak_flops;
  result.rss_peak_bytes = rss_peak_bytes();
  return result;
}

}  // namespace trireme
