#include "cli/search_by_op.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "cli/plan_by_op_words.h"
#include "cli/role_prices_text.h"
#include "graph/work.h"
#include "planner/layout_choice.h"
#include "planner/search_layout.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

// If the gain is smaller, the best uniform plan is as good.
constexpr double kWorthFreedom = 0.03;

const char* plural_of(int64_t count) { return count == 1 ? "" : "s"; }

// Neighbouring ops with the same roles are in one line.
std::string roles_text(const OpGroups& groups, const UnitWay& way, const StageMesh& mesh) {
  std::string text;
  std::string before;
  for (size_t g = 0; g < way.roles.size(); ++g) {
    const std::string roles = to_string(way.roles[g], mesh);
    const std::string& name = groups.groups()[g].name;
    if (roles == before) {
      text += " " + name;
    } else {
      text += fmt::format("{}{:<34} {}", text.empty() ? "" : "\n", "      " + roles, name);
    }
    before = roles;
  }
  return text + "\n";
}

std::string stages_text(const PlanByOp& found) {
  StageSearch names(found.run, found.search.best.sequences);
  std::string text;
  int rank = 0;
  const StagePlan* before = nullptr;
  for (size_t s = 0; s < found.search.best.stages.size(); ++s) {
    const StagePlan& stage = found.search.best.stages[s];
    const RanksOfStage ranks = ranks_of_stage(found.run, rank, stage.num_ranks);
    text += fmt::format("  stage {}: {} on ranks {} to {} ({}){}, {} a micro-batch, {}\n", s,
                        units_text(found.run, stage.first_unit, stage.num_units), rank,
                        rank + stage.num_ranks - 1, to_string(stage.mesh),
                        ranks.devices.empty() ? "" : " of " + ranks.devices,
                        format_seconds(stage.seconds), memory_text(stage, ranks));
    rank += stage.num_ranks;
    if (before != nullptr && are_alike(*before, stage)) continue;
    before = &stage;
    for (const PlacedUnits& units : stage.units) {
      const OpGroups& groups = names.groups(units.kind);
      const std::string name =
          groups.graph().unit.starts_with("layers.") ? "layer" : groups.graph().unit;
      text += fmt::format("    {} ({})\n{}", name, sharding_text(units.way),
                          roles_text(groups, units.way, stage.mesh));
    }
  }
  return text;
}

std::string other_plan_text(const PlanByOp& found, std::string_view name,
                            const RunnablePlan& plan) {
  const std::string ratio = found.uniform
                                ? fmt::format(": {:.2f} times as fast as the best uniform plan",
                                              found.uniform->predicted_s / plan.predicted_s)
                                : "";
  return fmt::format(
      "{:<21} {} in the same prices; trireme plan predicts {}, peak {}{}\n"
      "  {}\n",
      name, format_seconds(plan.found.step_s), format_seconds(plan.predicted_s),
      format_bytes(plan.arena_bytes), ratio, set_options(found.config, plan.config));
}

std::string other_plans_text(const PlanByOp& found) {
  std::string text;
  if (found.by_speed) text += other_plan_text(found, "layers by speed", *found.by_speed);
  if (found.by_stage) text += other_plan_text(found, "degrees by stage", *found.by_stage);
  return text;
}

std::string gain_text(const PlanByOp& found) {
  const std::string others = other_plans_text(found);
  if (!found.uniform && !others.empty()) return "no uniform plan fits\n" + others;
  if (!found.uniform) {
    return "no uniform plan fits, and a run has one mesh and one role for all ops\n";
  }
  const FoundPlan& uniform = found.uniform->found;
  std::string text = fmt::format(
      "best uniform plan     {} in the same prices; trireme plan predicts {}, peak {}\n"
      "  {}\n",
      format_seconds(uniform.step_s), format_seconds(found.uniform->predicted_s),
      format_bytes(found.uniform->arena_bytes), set_options(found.config, found.uniform->config));
  text += others;
  const double percent = 100.0 * found.gain();
  if (found.search.best.uniform && !found.search.best.is_uniform()) {
    return text +
           "The best plan has the same degrees in all stages, and layers by speed. It can run.\n";
  }
  if (found.search.best.uniform || percent <= 0.0) {
    return text + "The best plan is uniform: more freedom gains nothing. It can run.\n";
  }
  text +=
      fmt::format("The best plan by op takes {:.1f} % less time than the best uniform plan{}.\n",
                  percent, percent < 100.0 * kWorthFreedom ? ", so that one is good enough" : "");
  return text;
}

// The layouts of `trireme plan --search` are priced by the prediction of `trireme plan` alone.
std::string layout_text(const PlanByOp& found) {
  if (!found.layout) return "";
  return fmt::format("best of plan --search {}, peak {}; it also tries other schedules\n  {}\n",
                     format_seconds(found.layout->predicted_s),
                     format_bytes(found.layout->arena_bytes),
                     set_options(found.config, found.layout->config));
}

// `prices`: of the roles of its ops, or nullptr if they are not asked for.
Json stage_json(const PlanByOp& found, const StageSearch& names, const StagePlan& stage,
                int first_rank, const StageRolePrices* prices) {
  Json json = {{"first_rank", first_rank},
               {"ranks", stage.num_ranks},
               {"mesh", {stage.mesh.dims[0].degree(), stage.mesh.dims[1].degree()}},
               {"units", units_text(found.run, stage.first_unit, stage.num_units)},
               {"in_flight", stage.in_flight},
               {"seconds", stage.seconds},
               {"forward_s", stage.forward_s},
               {"backward_s", stage.backward_s},
               {"step_s", stage.step_s},
               {"bytes", stage.bytes}};
  const NodeMap nodes = found.run.hardware.nodes();
  if (!nodes.are_equal()) json["ranks_per_node"] = nodes.size_at(first_rank);
  json["kinds"] = Json::array();
  for (size_t u = 0; u < stage.units.size(); ++u) {
    const PlacedUnits& units = stage.units[u];
    const OpGroups& groups = names.groups(units.kind);
    Json kind = {{"first", units.first_unit},
                 {"count", units.count},
                 {"unit", groups.graph().unit},
                 {"recompute", name_of(units.way.recompute)},
                 {"zero", zero_level_of(units.way.sharding)},
                 {"seconds", units.way.cost.seconds}};
    kind["ops"] = Json::array();
    for (size_t g = 0; g < units.way.roles.size(); ++g) {
      kind["ops"].push_back(
          {{"op", groups.groups()[g].name},
           {"roles", {name_of(units.way.roles[g][0]), name_of(units.way.roles[g][1])}}});
      if (prices == nullptr) continue;
      kind["ops"].back()["alternatives"] = role_prices_json((*prices)[u][g]);
    }
    json["kinds"].push_back(std::move(kind));
  }
  return json;
}

const std::optional<RunnablePlan>& faster_of(const std::optional<RunnablePlan>& a,
                                             const std::optional<RunnablePlan>& b) {
  return !b || (a && a->predicted_s <= b->predicted_s) ? a : b;
}

}  // namespace

double PlanByOp::gain() const {
  return uniform ? 1.0 - search.best.step_s / uniform->found.step_s : 0.0;
}

double PlanByOp::mfu(double step_s) const {
  const double tokens = double(run.global_sequences * run.model.seq_len);
  const double flops = tokens * model_flops_per_token(run.model).total();
  double peak = 0.0;  // of all ranks
  for (int rank = 0; rank < run.num_ranks; ++rank) {
    const Hardware own = run.hardware.all_of_device(run.hardware.device_of(rank));
    peak += own.peak_flops(run.base.compute);
  }
  return flops / step_s / peak;
}

Result<RunConfig> PlanByOp::runnable() const {
  if (!by_op.ok()) return by_op.error();
  return by_op->config;
}

std::optional<NamedPlan> PlanByOp::trainable() const {
  std::optional<NamedPlan> fastest;
  const auto offer = [&](std::string_view name, const RunnablePlan* plan) {
    if (plan == nullptr) return;
    if (fastest && fastest->plan->predicted_s <= plan->predicted_s) return;
    fastest = {name, plan};
  };
  const auto pointer_to = [](const std::optional<RunnablePlan>& plan) {
    return plan ? &*plan : nullptr;
  };
  // If two plans are equally fast, the one that is offered first is taken.
  offer("the best uniform plan", pointer_to(uniform));
  offer("the plan with layers by speed", pointer_to(by_speed));
  offer("the plan with degrees by stage", pointer_to(by_stage));
  offer("the plan by op", by_op.ok() ? &*by_op : nullptr);
  return fastest;
}

Result<PlanByOp> search_by_op(const PlannedRun& run, const RunConfig& config,
                              const HostFacts& host) {
  const auto begin = std::chrono::steady_clock::now();
  TRIREME_TRY(search, search_plan(run));
  std::optional<RunnablePlan> uniform = best_runnable(search.uniforms, config, host, run.hardware);
  std::optional<RunnablePlan> by_speed = best_runnable(search.by_speed, config, host, run.hardware);
  // The memory of the search is simplified. If a plan with equal degrees wins that does not fit
  // exactly, the best one that does takes its place.
  const std::optional<RunnablePlan>& same = faster_of(uniform, by_speed);
  if (same && search.best.uniform) search.best = same->found;
  std::optional<RunnablePlan> by_stage = best_runnable(search.by_stage, config, host, run.hardware);
  if (by_stage && same && same->predicted_s <= by_stage->predicted_s) by_stage.reset();
  Result<RunnablePlan> by_op = same && search.best.uniform
                                   ? Result<RunnablePlan>(*same)
                                   : compile_found(search.best, config, host, run.hardware);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return PlanByOp{run,
                  config,
                  std::move(search),
                  std::move(by_op),
                  std::move(uniform),
                  std::move(by_speed),
                  std::move(by_stage),
                  took.count()};
}

std::optional<RunnablePlan> search_one_layout(const RunConfig& config, const HostFacts& host,
                                              const Hardware& hardware) {
  const auto ranks = int(num_ranks(config.parallel));
  const Result<LayoutSearch> search = search_layout(config, host, hardware, ranks, 1);
  if (!search.ok()) return std::nullopt;
  const PricedLayout& best = search->best.front();
  RunnablePlan plan{.config = with_layout(config, best.layout),
                    .predicted_s = best.time.step,
                    .arena_bytes = best.arena_bytes};
  plan.found.step_s = best.time.step;
  plan.config.batch.global_sequences = search->global_sequences;
  return plan;
}

std::string plan_by_op_text(const PlanByOp& found) {
  const FoundPlan& best = found.search.best;
  std::string text = fmt::format(
      "plan by op for {} rank{} of {}, {} sequence{} a step: {} operator{}, {} size{} of a "
      "micro-batch\n\n",
      found.run.num_ranks, plural_of(found.run.num_ranks), found.run.hardware.name,
      found.run.global_sequences, plural_of(found.run.global_sequences), found.search.num_operators,
      plural_of(found.search.num_operators), found.search.num_microbatch_sizes,
      plural_of(found.search.num_microbatch_sizes));
  text += fmt::format("step        {}, MFU {:.1f} %\n", format_seconds(best.step_s),
                      100.0 * found.mfu(best.step_s));
  text += fmt::format(
      "schedule    1f1b of {} stage{}, {} micro-batch{} of {} sequence{}; sum of the stages + "
      "(micro-batches - 1) x the slowest = {}\n\n",
      best.stages.size(), plural_of(int64_t(best.stages.size())), best.num_microbatches,
      best.num_microbatches == 1 ? "" : "es", best.sequences, plural_of(best.sequences),
      format_seconds(best.formula_s));
  text += stages_text(found) + "\n";
  if (!found.prices.empty()) text += role_prices_text(found) + "\n";
  text += gain_text(found) + layout_text(found);
  if (best.uniform || !found.by_op.ok()) return text;
  const RunnablePlan& by_op = *found.by_op;
  return text + fmt::format("The plan by op can run; trireme plan predicts {}, peak {}:\n  {}\n",
                            format_seconds(by_op.predicted_s), format_bytes(by_op.arena_bytes),
                            set_options(found.config, by_op.config));
}

Json plan_by_op_json(const PlanByOp& found) {
  const FoundPlan& best = found.search.best;
  Json json = {{"step", best.step_s},
               {"formula_s", best.formula_s},
               {"mfu", found.mfu(best.step_s)},
               {"micro_batch_sequences", best.sequences},
               {"num_microbatches", best.num_microbatches},
               {"runnable", found.runnable().ok()},
               {"search_s", found.seconds}};
  const Result<RunConfig> runnable = found.runnable();
  json["refusal"] = runnable.ok() ? "" : runnable.error().message;
  if (found.by_op.ok()) {
    json["predicted_step"] = found.by_op->predicted_s;
    json["arena"] = found.by_op->arena_bytes;
  }
  const StageSearch names(found.run, best.sequences);
  json["stages"] = Json::array();
  int rank = 0;
  for (size_t s = 0; s < best.stages.size(); ++s) {
    const StagePlan& stage = best.stages[s];
    const StageRolePrices* prices = found.prices.empty() ? nullptr : &found.prices[s];
    json["stages"].push_back(stage_json(found, names, stage, rank, prices));
    rank += stage.num_ranks;
  }
  if (found.uniform) json["gain"] = found.gain();
  const auto add = [&](const char* name, const std::optional<RunnablePlan>& plan) {
    if (!plan) return;
    json[name] = {{"step", plan->found.step_s},
                  {"predicted_step", plan->predicted_s},
                  {"arena", plan->arena_bytes},
                  {"set", set_options(found.config, plan->config)}};
  };
  add("uniform", found.uniform);
  add("by_speed", found.by_speed);
  add("by_stage", found.by_stage);
  add("layout", found.layout);
  return json;
}

}  // namespace trireme
