#include "cli/serve_plan_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ostream>
#include <tuple>

#include "base/units.h"
#include "cli/serve_plan_json.h"
#include "serving/draw_serving.h"
#include "serving/serving_files.h"

namespace trireme {
namespace {

std::string workers_text(const Tiers& tiers, const ServingPlan& plan, size_t op, size_t tier) {
  std::string text;
  for (size_t kind = 0; kind < tiers.kinds.size(); ++kind) {
    const int64_t count = plan.deployment.workers[op][kind];
    if (count == 0 || tiers.kinds[kind].tier != int(tier)) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, tiers.kinds[kind].name);
  }
  return text;
}

std::string plan_text(const ServedPipeline& pipeline, const Tiers& tiers,
                      const ServingAnswer& answer) {
  const ServingPlan& plan = answer.plan;
  const DeploymentProblem problem = deployment_problem(pipeline, tiers, plan.choice);
  std::string text = fmt::format("  {:<12} {:<16} {:<12} {:<28} {:>9} {:>6}\n", "operator", "model",
                                 "tier", "workers", "items/s", "busy");
  for (size_t op = 0; op < pipeline.operators.size(); ++op) {
    std::string name = pipeline.operators[op].name;
    std::string model = pipeline.operators[op].models[size_t(plan.choice[op])].name;
    for (size_t tier = 0; tier < tiers.tiers.size(); ++tier) {
      const std::string workers = workers_text(tiers, plan, op, tier);
      if (workers.empty()) continue;
      text += fmt::format("  {:<12} {:<16} {:<12} {:<28} {:>9.4g} {:>5.0f}%\n", name, model,
                          tiers.tiers[tier].name, workers,
                          problem.works[op].items_per_s * plan.deployment.share_in(op, tier),
                          100.0 * plan.deployment.busy_share(problem, op, tier));
      name = model = "";
    }
  }
  for (size_t tier = 0; tier + 1 < tiers.tiers.size(); ++tier) {
    text += fmt::format("  {} to {}: {}B/s of {}B/s\n", tiers.tiers[tier].name,
                        tiers.tiers[tier + 1].name,
                        format_count(plan.deployment.link_bytes_per_s[tier]),
                        format_count(tiers.tiers[tier].bytes_per_s));
  }
  return text;
}

// Returns the speeds of language models as a table, or "" if there are none.
std::string speeds_text(const ServedPipeline& pipeline, const Tiers& tiers) {
  std::string text;
  for (const Operator& one : pipeline.operators) {
    for (const ServedModel& model : one.models) {
      if (model.language_model.file.empty()) continue;
      text += fmt::format("  {:<12} {:<16} {:>9}", one.name, model.name,
                          format_bytes(int64_t(model.memory_bytes)));
      for (const WorkerKind& kind : tiers.kinds) {
        const auto speed = model.speeds.find(kind.name);
        const bool fits = model.memory_bytes <= kind.memory_bytes;
        const bool runs = fits && speed != model.speeds.end();
        text +=
            fmt::format("  {} {}", kind.name, runs ? fmt::format("{:.3g}", speed->second) : "-");
        const auto priced = model.priced.find(kind.name);
        const bool is_measured = model.measured.contains(kind.name);
        if (runs && priced != model.priced.end()) {
          text += fmt::format(" ({}; priced {:.3g})", is_measured ? "measured" : "stated",
                              priced->second);
        } else if (runs && is_measured) {
          text += " (measured)";
        }
      }
      text += "\n";
    }
  }
  if (text.empty()) return text;
  return "language models: memory, and requests/s of a worker of each kind\n" + text + "\n";
}

std::string compared_text(const Tiers& tiers, const ServingAnswer& answer) {
  std::string text;
  for (size_t tier = 0; tier < tiers.tiers.size(); ++tier) {
    const std::optional<double> cost = answer.cost_on(tier);
    text += fmt::format("  {:<12} ", fmt::format("all {}", tiers.tiers[tier].name));
    if (cost) {
      text += fmt::format("{:.4g} per hour; the plan saves {:.1f} %{}\n", *cost,
                          100.0 * answer.saved_of(*cost),
                          answer.best_single_tier() == int(tier) ? ", the best single tier" : "");
    } else {
      text += "cannot do it\n";
    }
  }
  return text;
}

// Rounds an accuracy down to four digits, so that --accuracy with the result has a plan.
double askable(double accuracy) { return std::floor(accuracy * 1e4 + 1e-6) / 1e4; }

std::string curve_text(const ServedPipeline& pipeline, const CostCurve& curve) {
  std::string text;
  for (auto plan = curve.plans.rbegin(); plan != curve.plans.rend(); ++plan) {
    text += fmt::format("  {:<12.4f} {:<10.4g} {}\n", askable(plan->accuracy),
                        plan->deployment.cost_per_hour(), pipeline.text_of(plan->choice));
  }
  return text;
}

std::string limits_text(const LatencyLimits& limits) {
  std::string text;
  if (limits.mean_s > 0.0) text += fmt::format(", mean at most {}", format_seconds(limits.mean_s));
  if (limits.p95_s > 0.0) {
    text += fmt::format(", 95 % at most {}", format_seconds(limits.p95_s));
  }
  return text.empty() ? text : "latency" + text.substr(1) + "\n";
}

std::string search_text(const ServingAnswer& answer) {
  if (answer.simulated_plans > 0) {
    return fmt::format("the cheapest of {} plans that were simulated, there may be cheaper ones",
                       answer.simulated_plans);
  }
  return answer.is_exact() ? "exact" : "not exact, there may be cheaper plans";
}

std::string trial_text(const ServingTrialResult& trial) {
  if (trial.requests == 0)
    return "  This plan was not simulated, because a request becomes too many items.\n";
  // More may finish than arrive, where some have arrived before the time that is measured.
  const double arrived_per_s =
      trial.held_share > 0.0 ? trial.finished_per_s / trial.held_share : trial.requests_per_s;
  return fmt::format(
      "  {:.4g} requests/s arrive, {:.4g} finish ({:.1f} %)\n"
      "  latency: mean {}, half of them {}, 95 % at most {}, 99 % at most {}\n",
      arrived_per_s, std::min(trial.finished_per_s, arrived_per_s),
      100.0 * std::min(trial.held_share, 1.0), format_seconds(trial.mean_s),
      format_seconds(trial.p50_s), format_seconds(trial.p95_s), format_seconds(trial.p99_s));
}

}  // namespace

Result<int> run_serve_plan(const ServePlanOptions& options, CommandIo& io) {
  if (options.tiers.empty()) {
    return usage(
        "--tiers is missing: name the file of the tiers, such as "
        "configs/serving/tiers.toml");
  }
  if (options.accuracy && !(*options.accuracy >= 0.0 && *options.accuracy <= 1.0)) {
    return usage(fmt::format("--accuracy {:g} must be from 0 to 1", *options.accuracy));
  }
  TRIREME_TRY(tiers, load_tiers(options.tiers));
  TRIREME_TRY(pipeline, load_pipeline(options.pipeline, tiers));
  for (const auto& [option, limit, own] :
       {std::tuple{"--mean-latency", &options.mean_latency_s, &pipeline.latency.mean_s},
        std::tuple{"--p95-latency", &options.p95_latency_s, &pipeline.latency.p95_s}}) {
    if (!*limit) continue;
    if (!(**limit >= 0.0)) {
      return usage(fmt::format("{} {:g} must be a number of seconds, at least 0", option, **limit));
    }
    *own = **limit;
  }
  const double target = options.accuracy.value_or(pipeline.accuracy);
  const auto start = std::chrono::steady_clock::now();
  TRIREME_TRY(answer, plan_serving(pipeline, tiers, target));
  const double search_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (options.svg) {
    io.out << draw_serving(pipeline, tiers, answer);
    return 0;
  }
  const ServingTrialResult trial =
      simulate_serving(pipeline, tiers, answer.plan, {.seed = options.seed});
  if (options.json) {
    io.out << serve_plan_json(pipeline, tiers, answer, trial, search_s);
    return 0;
  }
  const Deployment& deployment = answer.plan.deployment;
  io.out << fmt::format(
      "{}\n"
      "accuracy {:.4f} of at least {:g}; {:.4g} per hour: workers {:.4g}, traffic "
      "{:.4g}\n{}\n{}\n{}"
      "compared with the workers of one tier\n{}\n"
      "what accuracy costs per hour{}\n{}\n"
      "simulated, at random arrivals\n{}\n"
      "search: {}, {} combinations of models, {} integer programs, {}\n",
      pipeline.name, askable(answer.plan.accuracy), target, deployment.cost_per_hour(),
      deployment.workers_per_hour, deployment.traffic_per_hour, limits_text(pipeline.latency),
      plan_text(pipeline, tiers, answer), speeds_text(pipeline, tiers),
      compared_text(tiers, answer), pipeline.latency.are_stated() ? ", whatever the latency" : "",
      curve_text(pipeline, answer.curve), trial_text(trial), search_text(answer),
      answer.curve.combinations, answer.curve.placed, format_seconds(search_s));
  return 0;
}

}  // namespace trireme
