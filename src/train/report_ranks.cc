#include "train/report_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "comm/gather_text.h"
#include "program/palette.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostRanks = 16;

double microseconds(double seconds) { return std::round(seconds * 1e8) / 100; }
double microseconds_of_ns(int64_t ns) { return double(ns) / 1000; }

std::string coords_text(const RunPlan& plan, const MeshCoords& coords) {
  std::string text;
  const auto add = [&](const char* axis, int degree, int coord) {
    if (degree > 1) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", axis, coord);
  };
  add("dp", plan.mesh.dp, coords.dp);
  add("pp", plan.mesh.pp, coords.pp);
  add("cp", plan.mesh.cp, coords.cp);
  add("tp", plan.mesh.tp, coords.tp);
  return text;
}

void add_actions(Json& json, const Program& program, int num_chunks) {
  json["actions"] = Json::array();
  json["kinds"] = Json::array();
  for (const Action& action : program) {
    json["actions"].push_back(to_string(action, num_chunks));
    json["kinds"].push_back(drawn_kind(action.kind));
  }
}

// ---- timelines

// The simulated schedule of the rank's pipeline, with Step behind it.
Json predicted_timeline(const RunPlan& plan, const RankPlan& rank, const Simulation& simulation,
                        const StepTimes& times) {
  const size_t stage = size_t(rank.coords.pp);
  Program program = plan.schedule.programs[stage];
  std::vector<Span> spans = simulation.timeline[stage];
  program.push_back({.kind = ActionKind::Step});
  spans.push_back({simulation.makespan_s, simulation.makespan_s + times.optimizer});
  Json json;
  add_actions(json, program, plan.schedule.num_chunks);
  json["begin_us"] = Json::array();
  json["end_us"] = Json::array();
  for (const Span& span : spans) {
    json["begin_us"].push_back(microseconds(span.start_s));
    json["end_us"].push_back(microseconds(span.end_s));
  }
  return json;
}

// What this rank has traced, in nanoseconds of its clock.
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

// From the clocks of the ranks to microseconds since the first of them began the step.
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
  std::map<int64_t, int64_t> first_;  // by step
};

// ---- memory

// The tensors of regions, each table once however many ranks have it.
class Tables {
 public:
  int add(const TensorTable& table) {
    Json tensors = Json::array();
    for (const TensorSpec& tensor : table.tensors()) {
      tensors.push_back({tensor.name, tensor.offset, tensor.bytes(),
                         fmt::format("{} {}", tensor.shape.to_string(), name_of(tensor.dtype))});
    }
    std::string text = tensors.dump();
    const auto [entry, is_new] = found_.try_emplace(std::move(text), int(tables_.size()));
    if (is_new) tables_.push_back(std::move(tensors));
    return entry->second;
  }
  const Json& json() const { return tables_; }

 private:
  std::map<std::string, int> found_;
  Json tables_ = Json::array();
};

// Where the tables of the chunks lie as they are: [region] -> table, -1 where shards are stored.
std::vector<int> tables_of_regions(const RankPlan& rank, Tables& tables) {
  std::vector<int> table_of(rank.memory.regions.size(), -1);
  int64_t scratch_bytes = -1;
  for (size_t c = 0; c < rank.chunks.size(); ++c) {
    const ChunkTables& chunk = rank.chunks[c];
    const ChunkRegions& regions = rank.memory.chunks[c];
    const auto put = [&](int region, const TensorTable& table) {
      if (region >= 0 && !table.tensors().empty()) table_of[size_t(region)] = tables.add(table);
    };
    if (!chunk.zero.shards_params()) put(regions.params, chunk.tables.params);
    put(regions.optimizer, chunk.tables.optimizer);
    if (!chunk.zero.shards_grads()) {
      for (int region : regions.grad_slots) put(region, chunk.tables.grads);
    }
    for (int region : regions.saved_slots) put(region, chunk.tables.saved);
    for (int region : regions.weight_grad_slots) put(region, chunk.tables.weight_grad);
    if (chunk.tables.scratch.bytes() > scratch_bytes) {
      scratch_bytes = chunk.tables.scratch.bytes();
      put(rank.memory.scratch, chunk.tables.scratch);
    }
  }
  return table_of;
}

// When each region is live: [first action, last action], in order.
std::vector<Json> lifetimes(const MemoryPlan& memory) {
  std::vector<Json> live(memory.regions.size(), Json::array());
  std::vector<int64_t> since(memory.regions.size(), -1);
  for (int region : memory.permanent) since[size_t(region)] = 0;
  for (size_t i = 0; i < memory.actions.size(); ++i) {
    for (int region : memory.actions[i].acquire) since[size_t(region)] = int64_t(i);
    for (int region : memory.actions[i].release) {
      live[size_t(region)].push_back({since[size_t(region)], i});
      since[size_t(region)] = -1;
    }
  }
  for (size_t region = 0; region < since.size(); ++region) {
    if (since[region] < 0) continue;
    live[region].push_back({since[region], int64_t(memory.actions.size()) - 1});
  }
  return live;
}

Json memory_map(const RankPlan& rank, Tables& tables) {
  const MemoryPlan& memory = rank.memory;
  const std::vector<int> table_of = tables_of_regions(rank, tables);
  const std::vector<Json> live = lifetimes(memory);
  Json regions = Json::array();
  for (size_t i = 0; i < memory.regions.size(); ++i) {
    const MemoryRegion& region = memory.regions[i];
    if (region.bytes == 0) continue;
    regions.push_back({{"name", region.name},
                       {"class", name_of(region.memory_class)},
                       {"offset", region.offset},
                       {"bytes", region.bytes},
                       {"table", table_of[i]},
                       {"live", live[i]}});
  }
  return {{"arena_bytes", memory.arena_bytes},
          {"peak_bytes", memory.peak_bytes},
          {"peak_action", memory.peak_action},
          {"regions", std::move(regions)}};
}

// ---- which ranks

// Of a list whose form has been checked (spec/run_config_validate.cc).
std::vector<int> numbers_of(const std::string& list) {
  std::vector<int> numbers;
  const char* const end = list.data() + list.size();
  for (const char* at = list.data(); at < end; ++at) {
    at = std::from_chars(at, end, numbers.emplace_back()).ptr;
  }
  return numbers;
}

// The clock of a rank's host at one moment, the same number for all ranks of a host.
std::vector<int64_t> host_clocks(Engine& engine) {
  Group& world = engine.world();
  world.barrier();
  int64_t now = monotonic_ns();
  std::vector<int64_t> clocks(size_t(world.size()));
  world.all_gather({&now, DType::I64, Shape{1}},
                   {clocks.data(), DType::I64, Shape{int64_t(clocks.size())}});
  std::map<int, int64_t> of_node;
  for (size_t rank = 0; rank < clocks.size(); ++rank) {
    clocks[rank] = of_node.try_emplace(engine.node_of()[rank], clocks[rank]).first->second;
  }
  return clocks;
}

}  // namespace

std::vector<ShownRank> shown_ranks(const std::vector<RankMeasurement>& measured,
                                   const RunPlan& plan, const std::string& chosen) {
  std::map<int, std::string> why;
  const auto add = [&](size_t rank, const std::string& reason) {
    if (rank < measured.size() && why.size() < kMostRanks) why.try_emplace(int(rank), reason);
  };
  // What holds a rank up is what it computes; all of them end a step together.
  const auto busy = [](const RankMeasurement& a, const RankMeasurement& b) {
    return a.time.compute < b.time.compute;
  };
  const auto [fastest, slowest] = std::minmax_element(measured.begin(), measured.end(), busy);
  add(size_t(slowest - measured.begin()), "slowest");
  add(size_t(fastest - measured.begin()), "fastest");
  for (const int rank : numbers_of(chosen)) add(size_t(rank), "chosen");
  std::map<int, bool> stages;
  for (size_t rank = 0; rank < measured.size(); ++rank) {
    const int stage = plan.ranks[size_t(measured[rank].position)].coords.pp;
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
    text =
        Json{{"clock_ns", clocks[size_t(own)]}, {"steps", traced_steps(engine.rank_plan(), trace)}}
            .dump();
  }
  const std::vector<std::string> texts = gather_text(engine.world(), text);
  if (own != 0) return "";

  std::vector<Json> handed_over;
  for (const ShownRank& one : shown) handed_over.push_back(Json::parse(texts[size_t(one.rank)]));
  const CommonClock clock(handed_over);
  const Result<Simulation> simulation = simulate_plan(plan, views.hardware);
  const std::vector<RankPrediction> predictions = predict_ranks(plan, views.hardware);
  Tables tables;
  Json json = {{"num_ranks", views.measured.size()}, {"tables", nullptr}, {"ranks", Json::array()}};
  for (size_t i = 0; i < shown.size(); ++i) {
    const size_t position = size_t(views.measured[size_t(shown[i].rank)].position);
    const RankPlan& rank = plan.ranks[position];
    Json one = {
        {"rank", shown[i].rank}, {"why", shown[i].why}, {"coords", coords_text(plan, rank.coords)}};
    add_actions(one, rank.program, plan.schedule.num_chunks);
    if (simulation.ok()) {
      one["predicted"] = predicted_timeline(plan, rank, *simulation, predictions[position].time);
    }
    one["measured"] = clock.measured(handed_over[i]);
    one["memory"] = memory_map(rank, tables);
    json["ranks"].push_back(std::move(one));
  }
  json["tables"] = tables.json();
  return json.dump() + "\n";
}

}  // namespace trireme
