#include "cli/explain_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "compile/layer_values.h"
#include "compile/step_price.h"
#include "program/action_legend.h"
#include "schema/image_net.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kShownTensors = 8;

// A part of the time of a step.
struct TimePart {
  std::string_view name;
  double seconds = 0.0;
  std::string_view formula;
};

// Returns the place of the pipeline that all others wait for.
size_t slowest_place(const std::vector<StepTimes>& places) {
  const auto slowest =
      std::max_element(places.begin(), places.end(),
                       [](const StepTimes& a, const StepTimes& b) { return a.step < b.step; });
  return size_t(slowest - places.begin());
}

// Returns the parts of the slowest rank's step. Its compute is divided in the proportions of the
// units that it has, shared out among as many tp ranks as its place has.
std::vector<TimePart> time_parts(const RunPlan& plan, const Hardware& hardware) {
  const std::vector<StepTimes> places = predict_stages(plan, hardware);
  const size_t place = slowest_place(places);
  const PlanPrices prices = price_places(plan, hardware);
  ComputeTimes whole;
  for (const ChunkTables& chunk : plan.pipeline[place].chunks) {
    whole += prices.at(plan.mesh, int(place)).of(chunk.stage);
  }
  const StepTimes& times = places[place];
  const double work_s = (times.compute - times.optimizer) / whole.total_s();
  return {
      {"matmuls", work_s * whole.products_s,
       "FLOPs of each product / (peak x matmul_share x depth / (depth + matmul_depth)), at most "
       "sustained_flops"},
      {"attention", work_s * whole.attention_s,
       "causal FLOPs / (peak x attention_share), backward 2.5 times as many / (peak x "
       "attention_backward_share)"},
      {"memory", work_s * whole.memory_s,
       "bytes that other kernels read and write / (memory_bytes_per_s x memory_share)"},
      {"recomputation", work_s * whole.again_s, "kernels of the forward pass that run again"},
      {"update", times.optimizer,
       "2 (gradients + state + parameters) / memory bandwidth, and step_s"},
      {"communication", times.exposed_comm, "transfers that are not hidden behind computation"},
      {"bubble", times.bubble, "waiting for other pipeline stages"}};
}

// A tensor of the plan and how many copies of it the arena holds.
struct PlannedTensor {
  const TensorSpec* tensor = nullptr;
  MemoryClass memory_class = MemoryClass::Scratch;
  size_t copies = 1;
  int64_t bytes() const { return tensor->bytes() * int64_t(copies); }
};

std::vector<PlannedTensor> largest_tensors(const RunPlan& plan) {
  std::vector<PlannedTensor> all;
  const auto add = [&](const TensorTable& table, MemoryClass memory_class, size_t copies) {
    for (const TensorSpec& tensor : table.tensors()) {
      if (copies > 0) all.push_back({&tensor, memory_class, copies});
    }
  };
  const RankPlan& rank = plan.pipeline.front();
  for (size_t c = 0; c < rank.chunks.size(); ++c) {
    const StageTables& tables = rank.chunks[c].tables;
    const ChunkRegions& regions = rank.memory.chunks[c];
    add(tables.params, MemoryClass::Params, 1);
    add(tables.grads, MemoryClass::Grads, regions.grad_slots.size());
    add(tables.optimizer, MemoryClass::Optimizer, 1);
    add(tables.saved, MemoryClass::Activations, regions.saved_slots.size());
    add(tables.weight_grad, MemoryClass::Activations, regions.weight_grad_slots.size());
    add(tables.scratch, MemoryClass::Scratch, 1);
  }
  std::stable_sort(all.begin(), all.end(), [](const PlannedTensor& a, const PlannedTensor& b) {
    return a.bytes() > b.bytes();
  });
  if (all.size() > kShownTensors) all.resize(kShownTensors);
  return all;
}

std::string verdict(const Alternative& way) {
  if (!way.refusal.empty()) return "refused: " + way.refusal;
  return way.is_configured ? "configured" : "";
}

double tokens_per_s(const RunPlan& plan, const Hardware& hardware) {
  return double(plan.tokens_per_step()) / predicted_step_s(plan, hardware);
}

double mfu(const RunPlan& plan, const Hardware& hardware) {
  return tokens_per_s(plan, hardware) * plan.flops_per_token.total() /
         (peak_flops(plan, hardware) * plan.num_ranks());
}

std::string time_text(const RunPlan& plan, const Hardware& hardware) {
  const double step_s = predicted_step_s(plan, hardware);
  std::string text = fmt::format(
      "time of a step on {}: peak {:.1f} GFLOP/s (matmul_share {:.2f}, attention_share {:.2f}), "
      "{:.1f} GB/s\n",
      hardware.name, peak_flops(plan, hardware) * 1e-9, hardware.matmul_share,
      hardware.attention_share, hardware.memory_bytes_per_s * 1e-9);
  for (const TimePart& part : time_parts(plan, hardware)) {
    if (part.seconds == 0.0) continue;
    text += fmt::format("  {:<14}{:>10} {:>5.1f}%  {}\n", part.name, format_seconds(part.seconds),
                        100.0 * part.seconds / step_s, part.formula);
  }
  const std::string unit = fmt::format("{}s/s", counted_unit(plan.model));
  text +=
      fmt::format("  {:<14}{:>10}         {} {}, MFU {:.1f}% = {} x {} FLOPs / peak{}\n", "step",
                  format_seconds(step_s), format_rate(tokens_per_s(plan, hardware)), unit,
                  100.0 * mfu(plan, hardware), unit, format_count(plan.flops_per_token.total()),
                  plan.num_ranks() == 1 ? "" : fmt::format(" of {} ranks", plan.num_ranks()));
  return text;
}

std::string memory_text(const RunPlan& plan) {
  const RankPlan& rank = plan.pipeline.front();
  const int64_t peak_action = rank.memory.peak_action;
  std::string text = fmt::format(
      "rank 0 uses the most memory at {}, action {} of {} ({}): {} of the {} that it allocates; "
      "its largest tensors, all copies together\n",
      to_string(rank.program[size_t(peak_action)], plan.schedule.num_chunks), peak_action + 1,
      rank.program.size(),
      action_legend({rank.program[size_t(peak_action)]}, plan.schedule.num_chunks),
      format_bytes(rank.memory.peak_bytes), format_bytes(rank.memory.arena_bytes));
  for (const PlannedTensor& planned : largest_tensors(plan)) {
    const TensorSpec& tensor = *planned.tensor;
    text += fmt::format("  {:<14}{:>10}  {} {} {}{}\n", name_of(planned.memory_class),
                        format_bytes(planned.bytes()), tensor.name, name_of(tensor.dtype),
                        tensor.shape.to_string(),
                        planned.copies > 1 ? fmt::format(" x {}", planned.copies) : "");
  }
  return text;
}

std::string layers_text(const ModelSpec& model, const LayerRun& kind) {
  if (kind.count == model.layers) return "every layer does with its values";
  if (kind.count == 1) return fmt::format("layer {} does with its values", kind.first);
  return fmt::format("layers {} to {} do with their values", kind.first,
                     kind.first + kind.count - 1);
}

std::string recompute_text(const RunPlan& plan, const LayerRun& kind) {
  std::string text =
      fmt::format("memory.recompute = \"{}\": what {}, for one micro-batch of rank 0\n",
                  name_of(plan.shape.recompute), layers_text(plan.model, kind));
  for (const LayerValue& value : layer_values(plan, kind.first)) {
    if (!value.is_again) {
      text += fmt::format("  {:<14}{:>10}  {}\n", "kept", format_bytes(value.bytes), value.name);
      continue;
    }
    text += fmt::format("  {:<14}{:>10}  {} for {} FLOPs{}\n", "computed again",
                        format_bytes(value.bytes), value.name, format_count(value.flops),
                        value.bytes == 0 ? ", because another value needs it" : "");
  }
  return text;
}

std::string recompute_text(const RunPlan& plan) {
  std::string text;
  for (const LayerRun& kind : layer_kinds(plan.model)) text += recompute_text(plan, kind);
  return text;
}

std::string alternatives_text(const std::vector<Alternative>& alternatives) {
  std::string text =
      "alternatives\n  memory.recompute  batch.micro_sequences       peak       step\n";
  for (const Alternative& way : alternatives) {
    text +=
        fmt::format("  {:<16}{:>23}{:>11}{:>11}  {}\n", name_of(way.recompute), way.micro_sequences,
                    format_bytes(way.arena_bytes), format_seconds(way.step_s), verdict(way));
  }
  return text;
}

}  // namespace

std::string explanation_text(const PlanExplanation& explanation) {
  return time_text(explanation.plan, explanation.hardware) + memory_text(explanation.plan) +
         recompute_text(explanation.plan) + alternatives_text(explanation.alternatives);
}

nlohmann::ordered_json explanation_json(const PlanExplanation& explanation) {
  const RunPlan& plan = explanation.plan;
  const Hardware& hardware = explanation.hardware;
  Json time = Json::object();
  for (const TimePart& part : time_parts(plan, hardware)) {
    time[std::string(part.name)] = {{"seconds", part.seconds}, {"formula", part.formula}};
  }
  Json tensors = Json::array();
  for (const PlannedTensor& planned : largest_tensors(plan)) {
    tensors.push_back({{"name", planned.tensor->name},
                       {"class", name_of(planned.memory_class)},
                       {"dtype", name_of(planned.tensor->dtype)},
                       {"shape", planned.tensor->shape.to_string()},
                       {"copies", planned.copies},
                       {"bytes", planned.bytes()}});
  }
  Json ways = Json::array();
  for (const Alternative& way : explanation.alternatives) {
    ways.push_back({{"recompute", name_of(way.recompute)},
                    {"micro_sequences", way.micro_sequences},
                    {"arena_bytes", way.arena_bytes},
                    {"step_s", way.step_s},
                    {"configured", way.is_configured},
                    {"refusal", way.refusal}});
  }
  return {
      {"peak_flops", peak_flops(plan, hardware)},
      {"mfu", mfu(plan, hardware)},
      {"time", time},
      {"peak_action",
       to_string(plan.pipeline.front().program[size_t(plan.pipeline.front().memory.peak_action)],
                 plan.schedule.num_chunks)},
      {"largest_tensors", tensors},
      {"alternatives", ways}};
}

}  // namespace trireme
