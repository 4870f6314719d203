#include "trireme/plan.h"

#include "api/content.h"
#include "api/this_machine.h"
#include "config/cluster_file.h"
#include "observe/summary.h"
#include "predict/predict.h"
#include "session/session.h"

namespace trireme::api {
namespace {

Plan plan_here(RunConfig config, const PlanRequest& request) {
  HostFacts host = this_host();
  Hardware hardware;
  if (request.cluster_file.empty()) {
    hardware = value_or_fail(measure_this_machine(config, host));
  } else {
    hardware = value_or_fail(load_hardware(request.cluster_file));
    host = {.memory_bytes = 0, .num_cores = hardware.threads, .hardware = hardware};
    if (config.memory.limit_bytes == 0) config.memory.limit_bytes = hardware.most_memory_bytes();
  }
  const RunPlan run = value_or_fail(plan_session(config, host));
  Plan plan;
  plan.num_params = run.num_params;
  plan.flops_per_token = run.flops_per_token.total();
  plan.tokens_per_step = run.tokens_per_step();
  plan.num_ranks = run.num_ranks();
  for (const int alike : run.class_of) {
    plan.peak_bytes.push_back(run.classes[size_t(alike)].memory.peak_bytes);
  }
  plan.step_s = predicted_step_s(run, hardware);
  plan.json = plan_json(run, predict_ranks(run, hardware), hardware);
  return plan;
}

}  // namespace

Plan plan(const Configuration& configuration, const PlanRequest& request) {
  return guarded([&] { return plan_here(configuration.content().config, request); });
}

}  // namespace trireme::api
