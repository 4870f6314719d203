#include "observe/rank_view.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

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

// The simulated schedule of the rank's pipeline, followed by Step.
Json predicted_timeline(const RunPlan& plan, const RankPlan& rank, const Simulation& simulation,
                        const StepTimes& times) {
  const size_t stage = size_t(rank.coords.pp);
  Program program = plan.schedule.programs[stage];
  std::vector<Span> spans = simulation.timeline[stage];
  program.push_back({.kind = ActionKind::Step, .chunk = -1, .microbatch = -1});
  spans.push_back({simulation.makespan_s, simulation.makespan_s + times.optimizer});
  return timeline_view(program, spans, plan.schedule.num_chunks);
}

// For regions that hold the tables of chunks unsharded: [region] -> table; -1 if it holds shards.
std::vector<int> tables_of_regions(const RankPlan& rank, TensorTables& tables) {
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
  std::string text = tensors.dump();
  const auto [entry, is_new] = found_.try_emplace(std::move(text), int(tables_.size()));
  if (is_new) tables_.push_back(entry->first);
  return entry->second;
}

Json TensorTables::json() const {
  Json all = Json::array();
  for (const std::string& table : tables_) all.push_back(Json::parse(table));
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

Json rank_view(const RunPlan& plan, const RankPlan& rank, const Simulation* simulation,
               const StepTimes& times, TensorTables& tables) {
  Json json = {{"coords", coords_text(plan, rank.coords)}};
  add_actions(json, rank.program, plan.schedule.num_chunks);
  if (simulation != nullptr) json["predicted"] = predicted_timeline(plan, rank, *simulation, times);
  json["memory"] = memory_map(rank, tables);
  return json;
}

}  // namespace trireme
