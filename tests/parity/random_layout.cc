#include "random_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "base/check.h"
#include "compile/run_plan.h"
#include "planner/make_plan.h"
#include "random/random_run.h"
#include "schema/mesh.h"
#include "schema/run_config_validate.h"

namespace trireme {
namespace {

// Reads configs/tiny-gpt2.toml.
RunConfig tiny_gpt2() {
  RunConfig config;
  config.model.layers = 4;
  config.model.d_model = 64;
  config.model.heads = 4;
  config.model.d_ff = 256;
  config.model.vocab_size = 256;
  config.model.seq_len = 64;
  config.data.source = DataSource::Synthetic;
  config.batch.global_sequences = 8;
  config.batch.micro_sequences = 1;
  config.optim.lr = 3e-3;
  config.optim.warmup_steps = 2;
  config.precision.compute = ComputeChoice::Fp32;
  config.run.steps = 20;
  return config;
}

bool meets_in_experts(const RunConfig& config) { return config.parallel.ep > config.parallel.cp; }

// Gives memory.recompute = "fit" a limit in the middle between what "none" and "full" need, so that
// some values are computed again.
RunConfig limited(RunConfig config, const RunPlan& plan) {
  if (config.memory.recompute != Recompute::Fit) return config;
  RunConfig full = config;
  full.memory.recompute = Recompute::Full;
  const int64_t least = make_plan(full, {}).value().largest().memory.arena_bytes;
  const int64_t most = plan.largest().memory.arena_bytes;
  RunConfig within = config;
  within.memory.limit_bytes = (least + most) / 2;
  return least < most && make_plan(within, {}).ok() ? within : config;
}

}  // namespace

RunConfig random_layout(uint64_t seed) {
  constexpr int kMostDraws = 4000;
  // Few of the drawn degrees by place are valid, so some seeds insist on them.
  const bool is_uneven = seed % 8 == 0;
  RunConfig base = tiny_gpt2();
  base.model.init_stddev = 0.2;
  std::mt19937_64 random(seed);
  for (int i = 0; i < kMostDraws; ++i) {
    const RunConfig config = random_run(random, base, DrawnFor::Training);
    if (!validate(config).empty()) continue;
    if (is_uneven && !mesh_of(config.parallel).is_uneven()) continue;
    try {
      const Result<RunPlan> plan = make_plan(config, {});
      if (plan.ok()) return limited(config, *plan);
      const ErrorKind kind = plan.error().kind;
      TRIREME_CHECK(kind == ErrorKind::Usage || kind == ErrorKind::Infeasible,
                    plan.error().message);
    } catch (const ContractError& error) {
      throw ContractError(fmt::format("{}: {}", command_of(config), error.what()));
    }
  }
  throw ContractError(fmt::format("seed {}: {} layouts in a row are refused", seed, kMostDraws));
}

std::string command_of(const RunConfig& config) {
  return "trireme train configs/tiny-gpt2.toml --out /tmp/layout " +
         overrides_of(config, tiny_gpt2());
}

RunConfig on_one_rank(const RunConfig& config) {
  const ParallelConfig one;
  RunConfig result = config;
  result.parallel = one;
  result.optim.post_validate = false;
  result.memory.recompute = Recompute::None;
  result.memory.limit_bytes = 0;
  result.memory.offload = OffloadChoice::None;
  result.run.threads_per_rank = 1;
  return result;
}

RunConfig bitwise_reference(const RunConfig& config) {
  RunConfig result = on_one_rank(config);
  const ParallelConfig& from = config.parallel;
  ParallelConfig& parallel = result.parallel;
  parallel.cp = from.cp;
  parallel.context = from.context;
  parallel.ep = from.ep;
  if (config.run.reproducible != Reproducible::Mesh) {  // sums follow tp
    parallel.tp = from.tp;
    parallel.sequence = from.sequence;
    parallel.tp_overlap = from.tp_overlap;
  }
  if (meets_in_experts(config)) {  // the micro-batches that are computed together matter
    parallel.dp = from.dp;
    parallel.zero = from.zero >= 2 ? 2 : 0;
  }
  return result;
}

bool has_bitwise_reference(const RunConfig& config) {
  const Mesh mesh = mesh_of(config.parallel);
  const auto differs = [&](const PlaceDegrees& place) { return place.tp != mesh.tp; };
  const bool differ_in_tp = std::any_of(mesh.places.begin(), mesh.places.end(), differs);
  if (differ_in_tp && config.run.reproducible != Reproducible::Mesh) return false;
  if (!meets_in_experts(config)) return true;
  // At places with fewer ranks, other micro-batches meet unless neighbours are computed at once.
  const bool meet_alike = !mesh.is_uneven() || config.parallel.zero >= 2;
  return meet_alike && config.parallel.schedule != ScheduleKind::Dualpipe;
}

}  // namespace trireme
