#include "cli/reproduce_alpa.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/json_text.h"
#include "base/units.h"
#include "cli/search_by_op.h"
#include "reproduce/alpa_suite.h"

namespace trireme {
namespace {

HostFacts host_of(const Hardware& hardware, int num_ranks) {
  HostFacts host;
  host.num_cores = 1;
  host.hardware = hardware;
  host.ranks_on_host = num_ranks;
  return host;
}

// Returns the meshes of the stages, such as "2 of 4 ranks, 1 of 2 x 4 ranks": neighbours with the
// same mesh are counted together.
std::string meshes_text(const FoundPlan& plan) {
  std::string text;
  for (size_t s = 0; s < plan.stages.size();) {
    size_t end = s;
    while (end < plan.stages.size() && plan.stages[end].mesh == plan.stages[s].mesh) ++end;
    text += text.empty() ? "" : ", ";
    text += fmt::format("{} of {}", end - s, to_string(plan.stages[s].mesh));
    s = end;
  }
  return text;
}

Result<PlanByOp> found_for(const PlannedRun& run, const AlpaRun& model, const RunConfig& config,
                           const Hardware& hardware) {
  return search_by_op(run, config, host_of(hardware, model.num_ranks));
}

}  // namespace

Result<int> run_reproduce_alpa(bool json, CommandIo& io) {
  const Hardware hardware = v100_p3();
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (!json) {
    io.out << fmt::format(
        "alpa: the models of Zheng et al. 2022 on nodes of {}, 1,024 sequences or 1,536 images a "
        "step\n\n"
        "  {:<9} {:>5} {:>10} {:>6} {:>10} {:>7} {:>9}  {}\n",
        hardware.name, "model", "ranks", "step", "MFU", "uniform", "gain", "search",
        "micro-batch and stages");
  }
  for (const AlpaRun& model : alpa_runs()) {
    RunConfig config = model.config;
    config.memory.limit_bytes = hardware.memory_bytes;
    TRIREME_TRY(run, planned_run(config, host_of(hardware, model.num_ranks), hardware));
    const Result<PlanByOp> found = found_for(run, model, config, hardware);
    if (!found.ok()) {
      rows.push_back({{"model", model.name}, {"refusal", found.error().message}});
      if (!json) io.out << fmt::format("  {:<9} {}\n", model.name, found.error().message);
      continue;
    }
    if (json) {
      auto row = plan_by_op_json(*found);
      row["model"] = model.name;
      row["ranks"] = model.num_ranks;
      rows.push_back(std::move(row));
      continue;
    }
    const FoundPlan& best = found->search.best;
    const bool has_uniform = found->uniform.has_value();
    io.out << fmt::format("  {:<9} {:>5} {:>10} {:>5.1f}% {:>10} {:>6.1f}% {:>9}  {} {}, {}\n",
                          model.name, model.num_ranks, format_seconds(best.step_s),
                          100.0 * found->mfu(best.step_s),
                          has_uniform ? format_seconds(found->uniform->found.step_s) : "none",
                          100.0 * found->gain(), format_seconds(found->seconds), best.sequences,
                          run.model.reads_images() ? "images" : "sequences", meshes_text(best));
    io.out.flush();
  }
  if (json) {
    io.out << json_text(rows, 2) << "\n";
  } else {
    io.out << "\n  * MoE 70B has bf16 gradients and no fp32 weights; with 18 bytes a parameter its "
              "state needs more than 64 devices have.\n";
  }
  return 0;
}

}  // namespace trireme
