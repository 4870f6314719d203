// Tiers and a pipeline, with a line ==== between: any input is refused with a message, or its plan
// keeps all limits, or there is none and a reason is given.

#include <cstdlib>
#include <string_view>

#include "serving/plan_serving.h"
#include "serving/serving_files.h"
#include "serving/simulate_serving.h"

using namespace trireme;

namespace {

// True if planning takes only milliseconds.
bool is_small_serving(const ServedPipeline& pipeline, const Tiers& tiers) {
  return pipeline.operators.size() <= 4 && tiers.kinds.size() <= 4 && tiers.tiers.size() <= 4 &&
         pipeline.num_combinations() <= 8;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t border = text.find("====\n");
  if (border == std::string_view::npos) return 0;
  const Result<Tiers> tiers = parse_tiers(text.substr(0, border), "tiers.toml", "missing");
  if (!tiers.ok()) {
    if (tiers.error().message.empty()) std::abort();
    return 0;
  }
  const Result<ServedPipeline> pipeline =
      parse_pipeline(text.substr(border + 5), "pipeline.toml", "missing", *tiers);
  if (!pipeline.ok()) {
    if (pipeline.error().message.empty()) std::abort();
    return 0;
  }
  if (!is_small_serving(*pipeline, *tiers)) return 0;
  const Result<ServingAnswer> answer =
      plan_serving(*pipeline, *tiers, pipeline->accuracy, {.work = 1e6});
  if (!answer.ok()) {
    if (answer.error().message.empty()) std::abort();
    return 0;
  }
  const DeploymentProblem problem = deployment_problem(*pipeline, *tiers, answer->plan.choice);
  if (!broken_limits(problem, answer->plan.deployment).empty()) std::abort();
  simulate_serving(*pipeline, *tiers, answer->plan, {.requests = 20, .most_items = 200});
  return 0;
}
