#include "planner/make_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/input_limits.h"
#include "graph/param_table.h"
#include "planner/asynchronous_plan.h"
#include "planner/compile_to_fit.h"
#include "planner/memory_refusal.h"
#include "schema/param_patterns.h"

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

// Refuses a pattern of optim.frozen that matches no parameter, which is probably a typing error.
Status check_frozen(const RunPlan& plan) {
  const std::string& frozen = plan.config.optim.frozen;
  if (frozen.empty()) return Done{};
  const std::vector<ParamSpec> params = param_table(plan.model, whole_model(plan.model));
  for (const std::string_view pattern : split_patterns(frozen)) {
    const bool matches = std::any_of(params.begin(), params.end(), [&](const ParamSpec& param) {
      return matches_pattern(pattern, param.name);
    });
    if (matches) continue;
    return usage(
        fmt::format("optim.frozen: \"{}\" matches no parameter of the model; they have names such "
                    "as \"{}\" and "
                    "\"{}\", and * stands for any text",
                    pattern, params.front().name, params[params.size() / 2].name));
  }
  const bool is_trained = std::any_of(params.begin(), params.end(), [&](const ParamSpec& param) {
    return param.is_trained && !matches_any(frozen, param.name);
  });
  if (is_trained) return Done{};
  return usage(fmt::format(
      "optim.frozen = \"{}\" leaves no parameter to train; name fewer parameters", frozen));
}

}  // namespace

Result<SizedPlan> make_sized_plan(const RunConfig& config, const HostFacts& host) {
  TRIREME_TRY(plan, start_plan(config, host));
  TRIREME_TRY_DONE(check_frozen(plan));
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
