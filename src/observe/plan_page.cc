#include "observe/plan_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "compile/price.h"
#include "observe/rank_view.h"
#include "observe/report_page.h"
#include "observe/summary.h"
#include "schema/run_config_text.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

// Returns all ranks if there are few, else the first rank of as many stages as the page has room
// for.
std::vector<int> shown_positions(const RunPlan& plan) {
  std::vector<int> shown;
  const size_t pp = size_t(plan.mesh.pp), num_ranks = size_t(plan.num_ranks());
  for (size_t i = 0; i < std::min(num_ranks, kMostRanks); ++i) {
    if (num_ranks <= kMostRanks) {
      shown.push_back(int(i));
      continue;
    }
    // Takes the first and the last stage and evenly spaced stages between them.
    const size_t count = std::min(pp, kMostRanks);
    if (i >= count) break;
    const int stage = int(count == 1 ? 0 : i * (pp - 1) / (count - 1));
    shown.push_back(position_of(plan.mesh, {.pp = stage}));
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
  const Predictions predictions = predict_ranks(plan, hardware);
  const Result<Simulation> simulation = simulate_plan(plan, hardware);
  Json summary = Json::parse(plan_json(plan, predictions, hardware));
  const double step_s = summary["step_s"].get<double>();
  TensorTables tables;
  Json ranks = Json::array(), summaries = Json::array();
  for (const int position : shown_positions(plan)) {
    const RankPlan rank = rank_plan(plan, position);
    Json one = {{"rank", position}, {"why", fmt::format("first of pp {}", rank.coords.pp)}};
    one.update(rank_view(plan, rank, simulation.ok() ? &simulation.value() : nullptr,
                         predictions.at(position).time, tables));
    ranks.push_back(std::move(one));
    summaries.push_back(planned_rank(plan, predictions, position));
    summaries.back().erase("program");
  }
  summary["ranks"] = std::move(summaries);
  const double mfu = double(plan.tokens_per_step()) * plan.flops_per_token.total() /
                     (step_s * peak_flops(plan, hardware) * plan.num_ranks());
  const Mesh& mesh = plan.mesh;
  const std::vector<std::pair<std::string, std::string>> facts = {
      {"parameters", format_count(double(plan.num_params))},
      {"ranks", fmt::format("{} in {} classes", plan.num_ranks(), predictions.classes.size())},
      {"tokens a step", format_count(double(plan.tokens_per_step()))},
      {"micro-batches", std::to_string(plan.num_microbatches)},
      {"step", format_seconds(step_s)},
      {"tokens per second", format_rate(double(plan.tokens_per_step()) / step_s)},
      {"MFU", fmt::format("{:.1f}%", 100.0 * mfu)},
      {"greatest peak", format_bytes(plan.greatest_peak_bytes())}};
  const int chunks = plan.config.parallel.chunks;
  const std::string schedule =
      plan.schedule.kind + (chunks > 0 ? fmt::format(" x {}", chunks) : std::string());
  return page_of(
      {{"name", name},
       {"subtitle",
        fmt::format("predicted for {}; {} ranks = tp {} x cp {} x pp {} x dp {}, "
                    "ep {}, {}, ZeRO {}, recompute {}",
                    hardware.name, plan.num_ranks(), mesh.tp, mesh.cp, mesh.pp, mesh.dp, mesh.ep,
                    schedule, plan.config.parallel.zero, name_of(plan.config.memory.recompute))},
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
