#include "observe/report_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/json_text.h"
#include "comm/gather_text.h"
#include "observe/host_clocks.h"
#include "observe/rank_view.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

double microseconds_of_ns(int64_t ns) { return double(ns) / 1000; }

// ---- timelines

// The traced steps of this rank, in nanoseconds of its clock.
Json traced_steps(const RankPlan& rank, const StepTrace& trace) {
  Json steps = Json::array();
  for (const StepTrace::TracedStep& traced : trace.steps()) {
    Json step = {{"step", traced.step}, {"begin", Json::array()}, {"end", Json::array()}};
    step["waited"] = Json::array();
    step["units"] = Json::array();
    for (const ActionTime& time : traced.actions) {
      step["begin"].push_back(time.begin_ns);
      step["end"].push_back(time.end_ns);
      step["waited"].push_back(time.waited_ns);
    }
    for (const UnitTime& unit : traced.units) {
      const Action& action = rank.program[size_t(unit.action)];
      const StageSpec& stage = rank.chunks[size_t(action.chunk)].stage;
      step["units"].push_back(
          {unit.action, unit_name(stage, unit.unit), unit.time.begin_ns, unit.time.end_ns});
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

// Converts the clocks of the ranks to microseconds since the first rank began the step.
class CommonClock {
 public:
  explicit CommonClock(const std::vector<Json>& handed_over) {
    for (const Json& one : handed_over) {
      for (const Json& step : one["steps"]) {
        const int64_t begin = step["begin"][0].get<int64_t>() - one["clock_ns"].get<int64_t>();
        const auto [entry, is_new] = first_.try_emplace(step["step"].get<int64_t>(), begin);
        if (!is_new) entry->second = std::min(entry->second, begin);
      }
    }
  }

  Json measured(const Json& one) const {
    Json steps = Json::array();
    for (const Json& traced : one["steps"]) {
      const int64_t origin =
          first_.at(traced["step"].get<int64_t>()) + one["clock_ns"].get<int64_t>();
      const auto shifted = [&](const Json& ns) {
        return microseconds_of_ns(ns.get<int64_t>() - origin);
      };
      Json step = {{"step", traced["step"]}, {"begin_us", Json::array()}};
      step["end_us"] = step["waited_us"] = step["units"] = Json::array();
      for (const Json& ns : traced["begin"]) step["begin_us"].push_back(shifted(ns));
      for (const Json& ns : traced["end"]) step["end_us"].push_back(shifted(ns));
      for (const Json& ns : traced["waited"]) {
        step["waited_us"].push_back(microseconds_of_ns(ns.get<int64_t>()));
      }
      for (const Json& unit : traced["units"]) {
        step["units"].push_back({unit[0], unit[1], shifted(unit[2]), shifted(unit[3])});
      }
      steps.push_back(std::move(step));
    }
    return steps;
  }

 private:
  std::map<int64_t, int64_t> first_;  // (step, start)
};

// ---- which ranks

// Parses a list whose form has been checked (schema/run_config_validate.cc).
std::vector<int> numbers_of(const std::string& list) {
  std::vector<int> numbers;
  const char* const end = list.data() + list.size();
  for (const char* at = list.data(); at < end; ++at) {
    at = std::from_chars(at, end, numbers.emplace_back()).ptr;
  }
  return numbers;
}

}  // namespace

std::vector<ShownRank> shown_ranks(const std::vector<RankMeasurement>& measured,
                                   const RunPlan& plan, const std::string& chosen) {
  std::map<int, std::string> why;
  const auto add = [&](size_t rank, const std::string& reason) {
    if (rank < measured.size() && why.size() < kMostRanks) why.try_emplace(int(rank), reason);
  };
  // The slowest rank is the one that computes longest, because all ranks end a step together.
  std::vector<size_t> by_compute(measured.size());
  std::iota(by_compute.begin(), by_compute.end(), size_t{0});
  std::stable_sort(by_compute.begin(), by_compute.end(), [&](size_t a, size_t b) {
    return measured[a].time.compute < measured[b].time.compute;
  });
  if (!by_compute.empty()) {
    add(by_compute.back(), "slowest");
    add(by_compute.front(), "fastest");
    add(by_compute[by_compute.size() / 2], "median");
  }
  for (const int rank : numbers_of(chosen)) add(size_t(rank), "chosen");
  std::map<int, bool> stages;
  for (size_t rank = 0; rank < measured.size(); ++rank) {
    const int stage = coords_of(plan.mesh, measured[rank].position).pp;
    if (stages.try_emplace(stage, true).second) add(rank, fmt::format("first of pp {}", stage));
  }
  const bool few = measured.size() <= kMostRanks;
  for (size_t rank = 0; few && rank < measured.size(); ++rank) add(rank, "");
  std::vector<ShownRank> shown;
  for (auto& [rank, reason] : why) shown.push_back({rank, reason});
  return shown;
}

std::string gather_ranks_json(const RankViews& views, Engine& engine, const StepTrace& trace) {
  const RunPlan& plan = views.plan;
  const std::vector<ShownRank> shown = shown_ranks(views.measured, plan, plan.config.trace.ranks);
  const std::vector<int64_t> clocks = host_clocks(engine);
  const int own = engine.world().rank();
  const bool is_shown = std::any_of(shown.begin(), shown.end(),
                                    [&](const ShownRank& one) { return one.rank == own; });
  std::string text;
  if (is_shown) {
    text = json_text(Json{{"clock_ns", clocks[size_t(own)]},
                          {"steps", traced_steps(engine.rank_plan(), trace)}});
  }
  const std::vector<std::string> texts = gather_text(engine.world(), text);
  if (own != 0) return "";

  std::vector<Json> handed_over;
  for (const ShownRank& one : shown)
    handed_over.push_back(parse_ordered_json(texts[size_t(one.rank)]));
  const CommonClock clock(handed_over);
  const Result<Simulation> simulation = simulate_plan(plan, views.hardware);
  TensorTables tables;
  Json json = {{"num_ranks", views.measured.size()}, {"tables", nullptr}, {"ranks", Json::array()}};
  for (size_t i = 0; i < shown.size(); ++i) {
    const int position = views.measured[size_t(shown[i].rank)].position;
    const RankPlan rank = rank_plan(plan, position);
    Json one = {{"rank", shown[i].rank}, {"why", shown[i].why}};
    one.update(rank_view(plan, rank, simulation.ok() ? &simulation.value() : nullptr,
                         views.predictions.at(position).time, tables));
    one["measured"] = clock.measured(handed_over[i]);
    json["ranks"].push_back(std::move(one));
  }
  json["tables"] = tables.json();
  return json_text(json) + "\n";
}

}  // namespace trireme
