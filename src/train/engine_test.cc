#include "train/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "base/allocation_count.h"
#include "data/synthetic_source.h"
#include "planner/make_plan.h"
#include "schema/run_config_text.h"
#include "train/kernel_choice.h"
#include "train/run_fixture.h"

namespace trireme {
namespace {

// Layouts of two ranks that together use every kind of communication.
std::vector<RunConfig> announcing_layouts() {
  std::vector<RunConfig> all;
  const auto add = [&](auto&& set) {
    all.push_back(some_run());
    set(all.back());
  };
  for (const int zero : {0, 1, 2, 3}) {
    add([&](RunConfig& c) {
      c.parallel.dp = 2;
      c.parallel.zero = zero;
    });
  }
  for (const int zero : {0, 3}) {
    add([&](RunConfig& c) {
      c.parallel.dp = 2;
      c.parallel.zero = zero;
      c.precision.compute = ComputeChoice::Bf16;
      c.optim.grad_dtype = c.optim.moment_dtype = StateChoice::Bf16;
      c.optim.master = false;
    });
  }
  add([](RunConfig& c) { c.parallel.pp = 2; });
  for (const char* stage_tp : {"1,2", "2,1"}) {
    add([&](RunConfig& c) {
      c.parallel.pp = c.parallel.tp = 2;
      c.parallel.stage_tp = stage_tp;
      c.parallel.order = "tp,cp,dp,pp";
    });
  }
  add([](RunConfig& c) {
    c.parallel.pp = 2;
    c.parallel.schedule = ScheduleKind::ZbH2;
    c.optim.post_validate = true;
    c.optim.clip_norm = 1e3;  // never clips, so a step may begin before the last one has ended
  });
  for (const bool sequence : {false, true}) {
    for (const bool overlap : {false, true}) {
      add([&](RunConfig& c) {
        c.parallel.tp = 2;
        c.parallel.sequence = sequence;
        c.parallel.tp_overlap = overlap;
      });
    }
  }
  for (const ContextExchange context : {ContextExchange::Ring, ContextExchange::AllToAll}) {
    add([&](RunConfig& c) {
      c.parallel.cp = 2;
      c.parallel.context = context;
    });
  }
  for (const double capacity_factor : {0.0, 1.0}) {
    add([&](RunConfig& c) {
      c.model.family = ModelFamily::Moe;
      c.model.tied_head = false;
      c.model.d_ff = 16;
      c.model.experts = 4;
      c.model.capacity_factor = capacity_factor;
      c.parallel.dp = 2;
      c.parallel.ep = 2;
    });
  }
  return all;
}

// The sanitizers replace the allocator; under them the steps run but nothing is counted.
int64_t allocated_so_far() {
#ifdef TRIREME_COUNTS_ALLOCATIONS
  return num_allocations;
#else
  return 0;
#endif
}

// Returns what all ranks together allocate in three steps, after a few warm-up steps. Every step is
// told which step follows; if `follows` is false, another one does.
int64_t allocations(const RunPlan& plan, const WorldOptions& options, bool follows) {
  const KernelChoice choice = choose_kernels(IsaChoice::Auto).value();
  int64_t allocated = 0;
  run_ranks(plan.num_ranks(), options, [&](World& world) {
    const SyntheticSource source(1, plan.model.vocab_size);
    Engine engine(plan, world, *choice.kernels, source);
    engine.init_params(1);
    const auto run_steps = [&](uint64_t first, uint64_t end) {
      for (uint64_t step = first; step < end; ++step) {
        engine.step(8 * (follows ? step : step % 2), 1e-3, false, 8 * (step + 1));
      }
    };
    const int64_t scratch_bytes = engine.message_scratch_bytes();
    run_steps(0, 4);
    EXPECT_EQ(engine.message_scratch_bytes(), scratch_bytes) << "reserved before step 1";
    world.group().barrier();
    const int64_t before = allocated_so_far();
    world.group().barrier();
    run_steps(4, 7);
    world.group().barrier();
    if (world.rank() == 0) allocated = allocated_so_far() - before;
    world.group().barrier();
  });
  return allocated;
}

// Also checked: ranks that do not see each other's memory, and steps that were begun and dropped.
TEST(Engine, ASteadyStepAllocatesNothingOnAnyLayout) {
  for (const RunConfig& config : announcing_layouts()) {
    const auto plan = make_plan(config, {});
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    for (const int ranks_per_node : {0, 1}) {
      for (const bool follows : {true, false}) {
        EXPECT_EQ(allocations(*plan, {.nodes = ranks_per_node}, follows), 0)
            << "ranks per node " << ranks_per_node << " follows " << follows << "\n"
            << to_toml(config);
      }
    }
  }
}

// The counters are reset at the start of every step, and an evaluation does not add to them.
TEST(Engine, AnEvaluationCountsNoVisitsOrRoutersLosses) {
  RunConfig config = some_run();
  config.model.family = ModelFamily::Moe;
  config.model.tied_head = false;
  config.model.d_ff = 16;
  config.model.experts = 4;
  config.model.z_loss = 0.001;
  const auto plan = make_plan(config, {});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const auto numbers_after = [&](bool evaluates) {
    std::vector<int64_t> numbers;
    const KernelChoice choice = choose_kernels(IsaChoice::Auto).value();
    run_ranks(1, {}, [&](World& world) {
      const SyntheticSource source(1, plan->model.vocab_size);
      Engine engine(*plan, world, *choice.kernels, source);
      engine.init_params(1);
      for (uint64_t step = 0; step < 3; ++step) {
        if (evaluates) engine.evaluate(source, 5);
        const StepResult result = engine.step(8 * step, 1e-3);
        for (const auto& part : {result.expert_loads, result.router_losses}) {
          numbers.insert(numbers.end(), part.begin(), part.end());
        }
      }
    });
    return numbers;
  };
  const std::vector<int64_t> numbers = numbers_after(false);
  EXPECT_EQ(numbers.size(), size_t(3 * config.model.layers * (config.model.experts + 1 + 2)));
  EXPECT_EQ(std::count(numbers.end() - 2 * config.model.layers, numbers.end(), 0), 0);
  EXPECT_EQ(numbers_after(true), numbers);
}

// Losses of a few steps, with the norms of single micro-batches that were measured before each.
struct Steps {
  std::vector<double> losses;
  std::vector<GradNorm> norms;
};
Steps run_steps(const RunConfig& config, int num_steps, int64_t num_measured) {
  const auto plan = make_plan(config, {});
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  const KernelChoice choice = choose_kernels(IsaChoice::Auto).value();
  const uint64_t sequences = uint64_t(plan->global_sequences);
  Steps steps;
  run_ranks(plan->num_ranks(), {}, [&](World& world) {
    const SyntheticSource source(1, plan->model.vocab_size);
    Engine engine(*plan, world, *choice.kernels, source);
    engine.init_params(1);
    Steps own;
    for (uint64_t step = 0; step < uint64_t(num_steps); ++step) {
      for (int64_t k = 0; k < num_measured; ++k) {
        own.norms.push_back(engine.measure_gradient(sequences * step, k));
      }
      const StepResult result = engine.step(sequences * step, 1e-2, false, sequences * (step + 1));
      own.losses.push_back(result.loss_sum);
    }
    if (world.rank() == 0) steps = own;
  });
  return steps;
}

TEST(Engine, MeasuringTheGradientOfAMicrobatchChangesNoBitOfTraining) {
  std::vector<RunConfig> layouts = announcing_layouts();
  for (const OffloadChoice offload : {OffloadChoice::Optimizer, OffloadChoice::All}) {
    layouts.push_back(some_run());
    layouts.back().memory.offload = offload;
  }
  layouts.push_back(some_run());
  layouts.back().precision.compute = ComputeChoice::Fp16;
  for (const RunConfig& config : layouts) {
    const Steps measured = run_steps(config, 3, 1);
    EXPECT_EQ(measured.losses, run_steps(config, 3, 0).losses) << to_toml(config);
    EXPECT_EQ(measured.norms.size(), 3u);
  }
}

// The gradient of one micro-batch alone has the bits of a step that has no other, on every layout
// that keeps the bits.
TEST(Engine, TheGradientOfAMicrobatchIsThatOfAStepWithItAlone) {
  RunConfig whole = some_run();
  whole.batch.global_sequences = 4;
  whole.run.reproducible = Reproducible::Layout;
  RunConfig alone = whole;
  alone.batch.global_sequences = 1;
  std::vector<double> norms;
  run_ranks(1, {}, [&](World& world) {
    const RunPlan plan = make_plan(alone, {}).value();
    const KernelChoice choice = choose_kernels(IsaChoice::Auto).value();
    const SyntheticSource source(1, plan.model.vocab_size);
    Engine engine(plan, world, *choice.kernels, source);
    engine.init_params(1);
    for (uint64_t sample = 0; sample < 4; ++sample) {
      norms.push_back(engine.step(sample, 0.0).update.grad_norm);
    }
  });
  for (const auto& [dp, pp, zero] : {std::tuple{1, 1, 0}, {4, 1, 0}, {2, 1, 3}, {2, 2, 1}}) {
    RunConfig config = whole;
    config.parallel.dp = dp;
    config.parallel.pp = pp;
    config.parallel.zero = zero;
    const Steps steps = run_steps(config, 1, 4);
    for (size_t k = 0; k < 4; ++k) {
      EXPECT_EQ(steps.norms[k].norm, norms[k]) << "dp " << dp << " pp " << pp << " zero " << zero;
      EXPECT_EQ(steps.norms[k].tokens, whole.model.seq_len);
    }
  }
}

}  // namespace
}  // namespace trireme
