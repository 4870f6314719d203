#include "cli/serve_plan_json.h"

#include <nlohmann/json.hpp>

#include "base/json_text.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

Json models_json(const ServedPipeline& pipeline, const ModelChoice& choice) {
  Json models = Json::object();
  for (size_t op = 0; op < choice.size(); ++op) {
    const Operator& one = pipeline.operators[op];
    models[one.name] = one.models[size_t(choice[op])].name;
  }
  return models;
}

// Speeds from the file and those that were priced.
Json speeds_json(const ServedPipeline& pipeline) {
  Json list = Json::array();
  for (const Operator& one : pipeline.operators) {
    for (const ServedModel& model : one.models) {
      Json speeds = Json::object();
      for (const auto& [kind, speed] : model.speeds) speeds[kind] = speed;
      list.push_back({{"operator", one.name},
                      {"model", model.name},
                      {"memory_bytes", model.memory_bytes},
                      {"items_per_s", speeds}});
      if (!model.priced.empty()) list.back()["priced_items_per_s"] = model.priced;
    }
  }
  return list;
}

Json operators_json(const ServedPipeline& pipeline, const Tiers& tiers, const ServingPlan& plan) {
  const DeploymentProblem problem = deployment_problem(pipeline, tiers, plan.choice);
  Json list = Json::array();
  for (size_t op = 0; op < pipeline.operators.size(); ++op) {
    const ServedModel& model = pipeline.operators[op].models[size_t(plan.choice[op])];
    Json places = Json::array();
    for (size_t tier = 0; tier < tiers.tiers.size(); ++tier) {
      Json workers = Json::object();
      for (size_t kind = 0; kind < tiers.kinds.size(); ++kind) {
        const int64_t count = plan.deployment.workers[op][kind];
        if (count > 0 && tiers.kinds[kind].tier == int(tier)) {
          workers[tiers.kinds[kind].name] = count;
        }
      }
      if (workers.empty()) continue;
      places.push_back({{"tier", tiers.tiers[tier].name},
                        {"share", plan.deployment.share_in(op, tier)},
                        {"utilization", plan.deployment.busy_share(problem, op, tier)},
                        {"workers", workers}});
    }
    list.push_back({{"name", pipeline.operators[op].name},
                    {"model", model.name},
                    {"items_per_s", problem.works[op].items_per_s},
                    {"memory_bytes", model.memory_bytes},
                    {"tiers", places}});
  }
  return list;
}

Json links_json(const Tiers& tiers, const ServingPlan& plan) {
  Json list = Json::array();
  for (size_t tier = 0; tier + 1 < tiers.tiers.size(); ++tier) {
    list.push_back({{"from", tiers.tiers[tier].name},
                    {"to", tiers.tiers[tier + 1].name},
                    {"bytes_per_s", plan.deployment.link_bytes_per_s[tier]},
                    {"capacity_bytes_per_s", tiers.tiers[tier].bytes_per_s}});
  }
  return list;
}

Json compared_json(const Tiers& tiers, const ServingAnswer& answer) {
  Json list = Json::array();
  for (size_t tier = 0; tier < tiers.tiers.size(); ++tier) {
    const std::optional<double> cost = answer.cost_on(tier);
    list.push_back({{"tier", tiers.tiers[tier].name},
                    {"cost_per_hour", cost ? Json(*cost) : Json()},
                    {"saves", cost ? Json(answer.saved_of(*cost)) : Json()}});
  }
  return list;
}

Json curve_json(const ServedPipeline& pipeline, const CostCurve& curve) {
  Json list = Json::array();
  for (auto plan = curve.plans.rbegin(); plan != curve.plans.rend(); ++plan) {
    list.push_back({{"accuracy", plan->accuracy},
                    {"cost_per_hour", plan->deployment.cost_per_hour()},
                    {"models", models_json(pipeline, plan->choice)}});
  }
  return list;
}

Json trial_json(const ServedPipeline& pipeline, const Tiers& tiers,
                const ServingTrialResult& trial) {
  Json pools = Json::array();
  for (const ServedPool& pool : trial.pools) {
    pools.push_back({{"operator", pipeline.operators[size_t(pool.op)].name},
                     {"workers", tiers.kinds[size_t(pool.kind)].name},
                     {"utilization", pool.busy},
                     {"predicted", pool.predicted}});
  }
  if (trial.requests == 0) return nullptr;
  return {
      {"requests_per_s", trial.requests_per_s},
      {"finished_per_s", trial.finished_per_s},
      {"held", trial.held_share},
      {"waiting", trial.waiting},
      {"latency_s",
       {{"mean", trial.mean_s}, {"p50", trial.p50_s}, {"p95", trial.p95_s}, {"p99", trial.p99_s}}},
      {"pools", pools}};
}

}  // namespace

std::string serve_plan_json(const ServedPipeline& pipeline, const Tiers& tiers,
                            const ServingAnswer& answer, const ServingTrialResult& trial,
                            double search_s) {
  const Deployment& deployment = answer.plan.deployment;
  const int best = answer.best_single_tier();
  const Json json = {
      {"name", pipeline.name},
      {"target", answer.target},
      {"accuracy", answer.plan.accuracy},
      {"cost_per_hour", deployment.cost_per_hour()},
      {"workers_per_hour", deployment.workers_per_hour},
      {"traffic_per_hour", deployment.traffic_per_hour},
      {"operators", operators_json(pipeline, tiers, answer.plan)},
      {"speeds", speeds_json(pipeline)},
      {"links", links_json(tiers, answer.plan)},
      {"single_tiers", compared_json(tiers, answer)},
      {"best_single_tier", best >= 0 ? Json(tiers.tiers[size_t(best)].name) : Json()},
      {"curve", curve_json(pipeline, answer.curve)},
      {"simulation", trial_json(pipeline, tiers, trial)},
      {"search",
       {{"exact", answer.is_exact()},
        {"simulated_plans", answer.simulated_plans},
        {"combinations", answer.curve.combinations},
        {"integer_programs", answer.curve.placed},
        {"seconds", search_s}}}};
  return lenient_json_text(json, 2) + "\n";
}

}  // namespace trireme
