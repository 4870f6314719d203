#include "planner/alternatives.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "planner/make_plan.h"
#include "predict/predict.h"

namespace trireme {
namespace {

// The bytes that make_plan compares with its limit: the largest rank if the configuration limits
// ranks, else all of them together.
int64_t needed_bytes(const RunPlan& plan, bool limits_ranks) {
  return limits_ranks ? plan.tightest().needed_bytes() : plan.arena_bytes();
}

std::string refusal_of(const RunPlan& plan, int64_t limit, bool limits_ranks) {
  const int64_t needed = needed_bytes(plan, limits_ranks);
  if (limit <= 0 || needed <= limit) return "";
  const bool is_sum = !limits_ranks && plan.num_ranks() > 1;
  return fmt::format("{} {}, {} available",
                     is_sum ? fmt::format("its {} ranks need", plan.num_ranks()) : "needs",
                     format_bytes(needed), format_bytes(limit));
}

// Micro-batch sizes that divide the step, each half or twice the one before, from the configured
// one.
std::vector<int64_t> micro_batches(int64_t configured, int64_t global) {
  std::vector<int64_t> sizes;
  for (int64_t micro = configured; micro >= 1; micro /= 2) sizes.push_back(micro);
  for (int64_t micro = 2 * configured; micro <= global; micro *= 2) sizes.push_back(micro);
  std::erase_if(sizes, [&](int64_t micro) { return global % micro != 0; });
  return sizes;
}

// Every policy without a limit, and the configured one.
std::vector<Recompute> tried(Recompute configured) {
  std::vector<Recompute> all(std::begin(kRecomputes), std::end(kRecomputes));
  if (configured == Recompute::Fit) all.push_back(configured);
  return all;
}

}  // namespace

Result<std::vector<Alternative>> alternatives(const RunConfig& config, const HostFacts& host,
                                              const Hardware& hardware) {
  const bool limits_ranks = config.memory.limit_bytes > 0;
  const int64_t limit = limits_ranks ? config.memory.limit_bytes : host.memory_bytes;
  HostFacts boundless = host;
  boundless.memory_bytes = 0;  // so that a refusal is a row of the result, not an error
  RunConfig other = config;
  other.memory.limit_bytes = 0;
  TRIREME_TRY(configured, make_plan(other, boundless));
  std::vector<Alternative> all;
  for (const int64_t micro :
       micro_batches(configured.shape.micro_sequences, configured.global_sequences)) {
    for (const Recompute recompute : tried(config.memory.recompute)) {
      other.batch.micro_sequences = micro;
      other.batch.global_sequences = configured.global_sequences;
      other.batch.global_tokens = 0;
      other.memory.recompute = recompute;
      // What "fit" computes again depends on the limit, so its rows are plans that keep within it.
      const bool fits = recompute == Recompute::Fit;
      other.memory.limit_bytes = fits ? config.memory.limit_bytes : 0;
      const Result<RunPlan> plan = make_plan(other, fits ? host : boundless);
      if (!plan.ok()) continue;
      all.push_back(
          {recompute, micro, plan->largest().memory.arena_bytes, predicted_step_s(*plan, hardware),
           micro == configured.shape.micro_sequences && recompute == configured.shape.recompute,
           refusal_of(*plan, limit, limits_ranks)});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Alternative& a, const Alternative& b) {
    if (a.refusal.empty() != b.refusal.empty()) return a.refusal.empty();
    return a.step_s < b.step_s;
  });
  return all;
}

}  // namespace trireme
