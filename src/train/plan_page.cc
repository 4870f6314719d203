#include "train/plan_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "planner/price.h"
#include "spec/run_config_text.h"
#include "train/rank_view.h"
#include "train/report_page.h"
#include "train/summary.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

// All ranks where there are few, else the first of as many stages as there is room for.
std::vector<size_t> shown_positions(const RunPlan& plan) {
  std::vector<size_t> shown;
  const size_t pp = size_t(plan.mesh.pp);
  for (size_t i = 0; i < std::min(plan.ranks.size(), kMostRanks); ++i) {
    if (plan.ranks.size() <= kMostRanks) {
      shown.push_back(i);
      continue;
    }
    // First and last stage, and evenly between them.
    const size_t count = std::min(pp, kMostRanks);
    if (i >= count) break;
    const int stage = int(count == 1 ? 0 : i * (pp - 1) / (count - 1));
    shown.push_back(size_t(position_of(plan.mesh, {.pp = stage})));
  }
  return shown;
}

std::string page_of(Json plan) {
  return report_page(
      Json{{"plan", std::move(plan)}}.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

std::string plan_page(const RunPlan& plan, const Hardware& hardware, const std::string& name,
                      const PageTable& layouts) {
  const std::vector<RankPrediction> predictions = predict_ranks(plan, hardware);
  const Result<Simulation> simulation = simulate_plan(plan, hardware);
  Json summary = Json::parse(plan_json(plan, predictions));
  const double step_s = summary["step_s"].get<double>();
  TensorTables tables;
  Json ranks = Json::array(), summaries = Json::array();
  for (const size_t position : shown_positions(plan)) {
    const RankPlan& rank = plan.ranks[position];
    Json one = {{"rank", position}, {"why", fmt::format("first of pp {}", rank.coords.pp)}};
    one.update(rank_view(plan, rank, simulation.ok() ? &simulation.value() : nullptr,
                         predictions[position].time, tables));
    ranks.push_back(std::move(one));
    summary["ranks"][position].erase("program");
    summaries.push_back(std::move(summary["ranks"][position]));
  }
  summary["ranks"] = std::move(summaries);
  int64_t peak = 0;
  for (const RankPlan& rank : plan.ranks) peak = std::max(peak, rank.memory.peak_bytes);
  const double mfu = double(plan.tokens_per_step()) * plan.flops_per_token.total() /
                     (step_s * peak_flops(plan, hardware) * plan.num_ranks());
  const Mesh& mesh = plan.mesh;
  const std::vector<std::pair<std::string, std::string>> facts = {
      {"parameters", format_count(double(plan.num_params))},
      {"ranks", std::to_string(plan.num_ranks())},
      {"tokens a step", format_count(double(plan.tokens_per_step()))},
      {"micro-batches", std::to_string(plan.num_microbatches)},
      {"step", format_seconds(step_s)},
      {"tokens per second", format_rate(double(plan.tokens_per_step()) / step_s)},
      {"MFU", fmt::format("{:.1f}%", 100.0 * mfu)},
      {"greatest peak", format_bytes(peak)}};
  const int chunks = plan.config.parallel.chunks;
  const std::string schedule =
      plan.schedule.kind + (chunks > 0 ? fmt::format(" x {}", chunks) : std::string());
  return page_of(
      {{"name", name},
       {"subtitle",
        fmt::format("predicted for {}; {} ranks = tp {} x cp {} x pp {} x dp {}, "
                    "ep {}, {}, ZeRO {}, recompute {}",
                    hardware.name, plan.num_ranks(), mesh.tp, mesh.cp, mesh.pp, mesh.dp, mesh.ep,
                    schedule, plan.config.parallel.zero, plan.config.memory.recompute)},
       {"facts", facts},
       {"layouts", layouts.empty() ? Json() : Json(layouts)},
       {"summary", std::move(summary)},
       {"ranks",
        {{"num_ranks", plan.num_ranks()}, {"tables", tables.json()}, {"ranks", std::move(ranks)}}},
       {"config", to_toml(plan.config)}});
}

std::string schedule_page(const SchedulePage& page) {
  Json ranks = Json::array();
  for (size_t rank = 0; rank < page.schedule.programs.size(); ++rank) {
    ranks.push_back({{"rank", rank},
                     {"coords", ""},
                     {"predicted", timeline_view(page.schedule.programs[rank], page.timeline[rank],
                                                 page.schedule.num_chunks)}});
  }
  return page_of({{"name", page.name},
                  {"subtitle", page.subtitle},
                  {"facts", page.facts},
                  {"is_unitless", true},
                  {"summary", nullptr},
                  {"ranks", {{"num_ranks", ranks.size()}, {"tables", nullptr}, {"ranks", ranks}}},
                  {"config", ""}});
}

}  // namespace trireme
