#include "observe/plan_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/json_text.h"
#include "base/units.h"
#include "compile/step_price.h"
#include "observe/diagnosis_json.h"
#include "observe/goodput_json.h"
#include "observe/rank_view.h"
#include "observe/report_page.h"
#include "observe/summary.h"
#include "observe/what_if_json.h"
#include "schema/image_net.h"
#include "schema/run_config_text.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

struct ShownPosition {
  int position = 0;
  std::string why;
};

// True if nobody would see a difference between the rows of both classes: they are ranks of one
// stage, and their times and bytes differ by at most a thousandth. With ZeRO, shards often differ
// by a few elements.
bool look_alike(const RunPlan& plan, const PredictedClass& a, const PredictedClass& b) {
  const auto sent = [](const PredictedClass& one) {
    double bytes = 0.0;
    for (const auto& axis : one.prediction.traffic) bytes += double(axis.second);
    return bytes;
  };
  const auto near = [](double x, double y) { return std::abs(x - y) <= 1e-3 * std::max(x, y); };
  const StepTimes &time = a.prediction.time, &other = b.prediction.time;
  return coords_of(plan.mesh, a.first).pp == coords_of(plan.mesh, b.first).pp &&
         near(time.compute, other.compute) && near(time.step, other.step) &&
         near(time.exposed_comm, other.exposed_comm) && near(sent(a), sent(b));
}

// Classes that look alike.
struct VisibleClass {
  int first = 0;  // rank
  int num_ranks = 0;
  bool is_shown = false;
};

// Every class of the predictions belongs to one of these.
struct VisibleClasses {
  std::vector<VisibleClass> all;
  std::vector<size_t> index_of;  // [class of the predictions] in `all`
};

VisibleClasses visible_classes(const RunPlan& plan, const std::vector<PredictedClass>& classes) {
  std::vector<const PredictedClass*> firsts;
  VisibleClasses visible;
  for (const PredictedClass& one : classes) {
    const auto same = std::find_if(firsts.begin(), firsts.end(), [&](const PredictedClass* other) {
      return look_alike(plan, *other, one);
    });
    visible.index_of.push_back(size_t(same - firsts.begin()));
    if (same == firsts.end()) {
      firsts.push_back(&one);
      visible.all.push_back({.first = one.first});
    }
    visible.all[visible.index_of.back()].num_ranks += one.num_ranks;
  }
  return visible;
}

// All ranks of a plan that has few of them, the slowest and the median one first.
std::vector<ShownPosition> all_positions(int num_ranks, const DisturbedStep* step) {
  std::vector<ShownPosition> shown;
  const auto add = [&](int position, std::string why) {
    const bool is_shown = std::any_of(shown.begin(), shown.end(), [&](const ShownPosition& one) {
      return one.position == position;
    });
    if (!is_shown) shown.push_back({position, std::move(why)});
  };
  if (step != nullptr && num_ranks > 1) {
    add(step->slowest(), "slowest");
    add(step->median(), "median");
  }
  for (int rank = 0; rank < num_ranks; ++rank) add(rank, "");
  return shown;
}

// Returns at most kMostRanks ranks: the slowest and the median one, and behind them the first rank
// of as many other classes as the page has room for. Each says how many ranks look like it. A rank
// of a disturbed step looks like no other, so the slowest and the median one are shown beside their
// classes.
std::vector<ShownPosition> shown_positions(const RunPlan& plan, const Predictions& predictions,
                                           const DisturbedStep* step, bool is_disturbed) {
  if (size_t(plan.num_ranks()) <= kMostRanks) return all_positions(plan.num_ranks(), step);
  VisibleClasses visible = visible_classes(plan, predictions.classes);
  const auto class_at = [&](int position) -> VisibleClass& {
    return visible.all[visible.index_of[size_t(predictions.class_of[size_t(position)])]];
  };
  std::vector<ShownPosition> shown;
  const auto add = [&](int position, const std::string& why) {
    VisibleClass& own = class_at(position);
    if (std::exchange(own.is_shown, true)) return;
    shown.push_back({position, fmt::format("{}{} alike", why, own.num_ranks)});
  };
  if (step != nullptr && is_disturbed) {
    shown = {{step->slowest(), "slowest"}, {step->median(), "median"}};
  } else if (step != nullptr) {
    const bool are_alike = &class_at(step->slowest()) == &class_at(step->median());
    add(step->slowest(), are_alike ? "slowest and median, " : "slowest, ");
    add(step->median(), "median, ");
  }
  std::vector<int> left;  // first ranks of the classes without a rank yet
  for (const VisibleClass& one : visible.all) {
    const bool is_there =
        one.is_shown || std::any_of(shown.begin(), shown.end(),
                                    [&](const auto& s) { return s.position == one.first; });
    if (!is_there) left.push_back(one.first);
  }
  // Takes the first and the last class and evenly spaced classes between them.
  const size_t count = std::min(left.size(), kMostRanks - shown.size());
  for (size_t i = 0; i < count; ++i) {
    add(left[count == 1 ? 0 : i * (left.size() - 1) / (count - 1)], "");
  }
  return shown;
}

Json disturbed_timeline(const RunPlan& plan, const DisturbedStep& step, int position) {
  std::vector<Span> spans = step.timeline(position);
  const double end_s = spans.back().start_s;  // of all pipelines
  spans.pop_back();
  Json json = timeline_view(plan.schedule.programs[size_t(coords_of(plan.mesh, position).pp)],
                            spans, plan.schedule.num_chunks);
  add_end_of_step(json, end_s, step.times(position));
  return json;
}

// The ranks of the page in full, and what bars show of them.
struct PageRanks {
  Json in_full = Json::array();
  Json summaries = Json::array();
  TensorTables tables;
};

PageRanks page_ranks(const RunPlan& plan, const Hardware& hardware, const Predictions& predictions,
                     const WhatIf* what_if) {
  const Result<Simulation> simulation = simulate_plan(plan, hardware);
  const Result<WhatIf> undisturbed = trireme::what_if(plan, hardware, {});
  const DisturbedStep* step = what_if != nullptr ? what_if->step.get()
                              : undisturbed.ok() ? undisturbed->step.get()
                                                 : nullptr;
  PageRanks shown;
  for (const auto& [position, why] : shown_positions(plan, predictions, step, what_if != nullptr)) {
    const RankPlan rank = rank_plan(plan, position);
    Json one = {{"rank", position}, {"why", why}};
    one.update(rank_view(plan, rank, simulation.ok() ? &simulation.value() : nullptr,
                         predictions.at(position).time, shown.tables));
    if (what_if != nullptr) one["what_if"] = disturbed_timeline(plan, *what_if->step, position);
    shown.in_full.push_back(std::move(one));
    shown.summaries.push_back(planned_rank(plan, predictions, position));
    shown.summaries.back().erase("program");
  }
  return shown;
}

std::string page_of(Json plan) {
  return report_page(lenient_json_text(Json{{"plan", std::move(plan)}}));
}

}  // namespace

std::string plan_page(const RunPlan& plan, const Hardware& hardware, const std::string& name,
                      const PlanPageParts& parts) {
  const Predictions predictions = predict_ranks(plan, hardware);
  Json summary = parse_ordered_json(plan_json(plan, predictions, hardware));
  const double step_s = summary["step_s"].get<double>();
  PageRanks shown = page_ranks(plan, hardware, predictions, parts.what_if);
  summary["ranks"] = std::move(shown.summaries);
  if (!parts.findings.empty()) summary["diagnosis"] = diagnosis_json(parts.findings);
  const double mfu = double(plan.tokens_per_step()) * plan.flops_per_token.total() /
                     (step_s * peak_flops(plan, hardware) * plan.num_ranks());
  const Mesh& mesh = plan.mesh;
  const std::vector<std::pair<std::string, std::string>> facts = {
      {"parameters", format_count(double(plan.num_params))},
      {"ranks", plan.num_ranks() == 1
                    ? std::string("1")
                    : fmt::format("{} in {} class{}", plan.num_ranks(), predictions.classes.size(),
                                  predictions.classes.size() == 1 ? "" : "es")},
      {fmt::format("{}s a step", counted_unit(plan.model)),
       format_count(double(plan.tokens_per_step()))},
      {"micro-batches", std::to_string(plan.num_microbatches)},
      {"step", format_seconds(step_s)},
      {fmt::format("{}s per second", counted_unit(plan.model)),
       format_rate(double(plan.tokens_per_step()) / step_s)},
      {"MFU", fmt::format("{:.1f}%", 100.0 * mfu)},
      {"peak memory, largest rank", format_bytes(plan.largest().memory.arena_bytes)}};
  const int chunks = plan.config.parallel.chunks;
  const std::string schedule =
      plan.schedule.kind + (chunks > 0 ? fmt::format(" x {}", chunks) : std::string());
  return page_of(
      {{"name", name},
       {"subtitle",
        fmt::format("predicted for {}; {} rank{} = {}, ep {}, {}, ZeRO {}, recompute {}",
                    hardware.name, plan.num_ranks(), plan.num_ranks() == 1 ? "" : "s",
                    degrees_text(mesh), mesh.ep, schedule, plan.config.parallel.zero,
                    name_of(plan.config.memory.recompute))},
       {"facts", facts},
       {"layouts", parts.layouts.empty() ? Json() : Json(parts.layouts)},
       {"what_if", parts.what_if == nullptr ? Json() : what_if_json(*parts.what_if)},
       {"goodput",
        parts.goodput == nullptr ? Json() : goodput_json(*parts.goodput, parts.price_per_hour)},
       {"summary", std::move(summary)},
       {"ranks",
        {{"num_ranks", plan.num_ranks()},
         {"tables", shown.tables.json()},
         {"ranks", std::move(shown.in_full)}}},
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
