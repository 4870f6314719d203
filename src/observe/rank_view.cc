#include "observe/rank_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "program/action_legend.h"
#include "program/palette.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

double microseconds(double seconds) { return std::round(seconds * 1e8) / 100; }

std::string coords_text(const RunPlan& plan, const MeshCoords& coords) {
  std::string text;
  const auto add = [&](const char* axis, int degree, int coord) {
    if (degree > 1) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", axis, coord);
  };
  add("dp", plan.mesh.dp_at(coords.pp), coords.dp);
  add("pp", plan.mesh.pp, coords.pp);
  add("cp", plan.mesh.cp, coords.cp);
  add("tp", plan.mesh.tp_at(coords.pp), coords.tp);
  return text;
}

void add_actions(Json& json, const Program& program, int num_chunks) {
  json["actions"] = Json::array();
  json["kinds"] = Json::array();
  for (const Action& action : program) {
    json["actions"].push_back(to_string(action, num_chunks));
    json["kinds"].push_back(drawn_kind(action));
  }
}

void add_box(Json& timeline, const std::string& name, std::string_view kind, const Span& span) {
  timeline["actions"].push_back(name);
  timeline["kinds"].push_back(kind);
  timeline["begin_us"].push_back(microseconds(span.start_s));
  timeline["end_us"].push_back(microseconds(span.end_s));
}

// The simulated schedule of the rank's pipeline, and the end of the step.
Json predicted_timeline(const RunPlan& plan, const RankPlan& rank, const Simulation& simulation,
                        const StepTimes& times) {
  const size_t stage = size_t(rank.coords.pp);
  Json json = timeline_view(plan.schedule.programs[stage], simulation.timeline[stage],
                            plan.schedule.num_chunks);
  add_end_of_step(json, simulation.makespan_s, times);
  return json;
}

// For regions that hold the tables of chunks unsharded: [region] -> table; -1 if it holds shards.
std::vector<int> tables_of_regions(const RankPlan& rank, TensorTables& tables) {
  std::vector<int> table_of(rank.memory.regions.size(), -1);
  std::map<int, int64_t> scratch_bytes;  // by region, of the largest chunk that uses it
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
    const int64_t bytes = chunk.tables.scratch.bytes();
    const auto [most, is_new] = scratch_bytes.try_emplace(regions.scratch, bytes);
    if (is_new || bytes > most->second) put(regions.scratch, chunk.tables.scratch);
    most->second = std::max(most->second, bytes);
  }
  return table_of;
}

// The live intervals of each region: [first action, last action], in order.
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

Json memory_map(const RankPlan& rank, TensorTables& tables) {
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

}  // namespace

int TensorTables::add(const TensorTable& table) {
  Json tensors = Json::array();
  for (const TensorSpec& tensor : table.tensors()) {
    tensors.push_back({tensor.name, tensor.offset, tensor.bytes(),
                       fmt::format("{} {}", tensor.shape.to_string(), name_of(tensor.dtype))});
  }
  std::string text = json_text(tensors);
  const auto [entry, is_new] = found_.try_emplace(std::move(text), int(tables_.size()));
  if (is_new) tables_.push_back(entry->first);
  return entry->second;
}

Json TensorTables::json() const {
  Json all = Json::array();
  for (const std::string& table : tables_) all.push_back(parse_ordered_json(table));
  return all;
}

Json timeline_view(const Program& program, const std::vector<Span>& spans, int num_chunks) {
  Json json;
  add_actions(json, program, num_chunks);
  json["begin_us"] = Json::array();
  json["end_us"] = Json::array();
  for (const Span& span : spans) {
    json["begin_us"].push_back(microseconds(span.start_s));
    json["end_us"].push_back(microseconds(span.end_s));
  }
  return json;
}

void add_end_of_step(Json& timeline, double begin_s, const StepTimes& times) {
  const auto exposed = [&](std::string_view axis) {
    const auto found = std::find(kTrafficAxes.begin(), kTrafficAxes.end(), axis);
    return times.exposed[size_t(found - kTrafficAxes.begin())];
  };
  const double end_s = times.step - times.optimizer;
  double at_s = begin_s;
  const auto add = [&](const char* name, double seconds) {
    const Span span{at_s, std::min(end_s, at_s + std::max(0.0, seconds))};
    if (span.end_s <= span.start_s) return;
    add_box(timeline, name, "transfer", span);
    at_s = span.end_s;
  };
  add("dp", exposed("dp"));
  add("file", exposed("file"));
  add("sums of tp, cp", end_s - at_s - exposed("world"));
  add("exchange", end_s - at_s);
  add_box(timeline, "Step", drawn_kind(ActionKind::Step), {std::max(at_s, end_s), times.step});
}

Json rank_view(const RunPlan& plan, const RankPlan& rank, const Simulation* simulation,
               const StepTimes& times, TensorTables& tables) {
  Json json = {{"coords", coords_text(plan, rank.coords)}};
  add_actions(json, rank.program, plan.schedule.num_chunks);
  json["legend"] = action_legend(rank.program, plan.schedule.num_chunks);
  if (simulation != nullptr) json["predicted"] = predicted_timeline(plan, rank, *simulation, times);
  json["memory"] = memory_map(rank, tables);
  return json;
}

}  // namespace trireme
