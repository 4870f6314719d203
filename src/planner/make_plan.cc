#include "planner/make_plan.h"

#include <fmt/format.h>

#include <utility>

#include "base/input_limits.h"
#include "planner/asynchronous_plan.h"
#include "planner/compile_to_fit.h"
#include "planner/memory_refusal.h"

namespace trireme {
namespace {

// Refuses what no rank can hold before a plan is made of it: a plan lists the pieces of every
// tensor, and would itself need gigabytes.
Status check_share_of_rank(const RunPlan& plan) {
  const ModelSpec& model = plan.model;
  const ParallelConfig& parallel = plan.config.parallel;
  const double params =
      double(num_params(model)) / (double(parallel.tp) * double(parallel.pp) * double(parallel.ep) *
                                   (parallel.zero == 3 ? double(parallel.dp) : 1.0));
  if (params <= limits::kParametersOfRank) return Done{};
  return infeasible(fmt::format(
      "the model has {:.1e} parameters, {:.1e} for each part of parallel.tp, pp, ep and ZeRO 3; at "
      "most "
      "{:.0e} are planned for one rank: cut it into more parts, or take a smaller model",
      double(num_params(model)), params, limits::kParametersOfRank));
}

}  // namespace

Result<SizedPlan> make_sized_plan(const RunConfig& config, const HostFacts& host) {
  TRIREME_TRY(plan, start_plan(config, host));
  TRIREME_TRY_DONE(check_share_of_rank(plan));
  const int64_t limit = memory_limit(plan, host);
  TRIREME_TRY_DONE(compile_to_fit(plan, limit));
  const int64_t needed = bytes_to_fit(plan);
  return SizedPlan{std::move(plan), needed, limit};
}

Result<RunPlan> make_plan(const RunConfig& config, const HostFacts& host) {
  if (config.parallel.staleness > 0) return make_asynchronous_plan(config, host);
  TRIREME_TRY(sized, make_sized_plan(config, host));
  if (!sized.fits()) return memory_refusal(sized.plan, sized.available_bytes, host);
  return std::move(sized.plan);
}

}  // namespace trireme
