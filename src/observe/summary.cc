#include "observe/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "compile/layer_values.h"
#include "compile/step_price.h"
#include "failures/evidence_json.h"
#include "graph/op_placement.h"
#include "observe/diagnosis_json.h"
#include "observe/goodput_json.h"
#include "train/planned_shard.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

// What only the first rank had measured.
constexpr const char* kUnknownIfLate[] = {"cores_taken_by_others",
                                          "step_s_undisturbed",
                                          "hardware",
                                          "peak_flops",
                                          "saves",
                                          "failed_saves",
                                          "late_saves",
                                          "snapshot_stall_s",
                                          "memory_saves",
                                          "memory_stall_s",
                                          "memory_sent_bytes",
                                          "memory_skipped",
                                          "memory_most_apart",
                                          "memory_most_redone",
                                          "goodput",
                                          "rss_peak",
                                          "seconds",
                                          "diagnosis",
                                          "ops"};

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json to_json(const StepTimes& times) {
  Json exposed;
  for (size_t axis = 0; axis < kTrafficAxes.size(); ++axis) {
    exposed[std::string(kTrafficAxes[axis])] = number(times.exposed[axis]);
  }
  return {{"compute", number(times.compute)},
          {"exposed_comm", number(times.exposed_comm)},
          {"bubble", number(times.bubble)},
          {"step", number(times.step)},
          {"data", number(times.data)},
          {"optimizer", number(times.optimizer)},
          {"exposed", exposed}};
}

Json predicted_memory(const MemoryBytes& memory) {
  Json json;
  for (int c = 0; c < kNumMemoryClasses; ++c) {
    json[std::string(name_of(static_cast<MemoryClass>(c)))] = memory.class_bytes[c];
  }
  json["peak"] = memory.peak_bytes;
  return json;
}

Json to_json(const AxisBytes& traffic) {
  Json json = {{"dp", 0}, {"tp", 0}, {"pp", 0}, {"cp", 0}, {"ep", 0}, {"world", 0}};
  for (const auto& [axis, bytes] : traffic) json[axis] = bytes;
  return json;
}

Json to_json(const MeshCoords& coords) {
  return {{"dp", coords.dp},
          {"tp", coords.tp},
          {"pp", coords.pp},
          {"cp", coords.cp},
          {"ep", coords.ep}};
}

Json class_json(const RunPlan& plan, const PredictedClass& alike) {
  return {{"ranks", alike.num_ranks},
          {"first", alike.first},
          {"coords", to_json(coords_of(plan.mesh, alike.first))},
          {"memory", {{"predicted", predicted_memory(plan.class_at(alike.first).memory)}}},
          {"traffic", {{"predicted", to_json(alike.prediction.traffic)}}},
          {"time", {{"predicted", to_json(alike.prediction.time)}}}};
}

Json measured_rank(const RunPlan& plan, const Predictions& predicted, int number,
                   const RankMeasurement& measured) {
  Json json = planned_rank(plan, predicted, measured.position);
  json["rank"] = number;
  json["memory"]["measured"] = {{"peak", measured.peak_bytes}};
  json["traffic"]["measured"] = to_json(measured.traffic);
  json["time"]["measured"] = to_json(measured.time);
  return json;
}

Json values_json(const RunPlan& plan, int64_t layer) {
  Json kept = Json::array(), again = Json::array();
  for (const LayerValue& value : layer_values(plan, layer)) {
    if (value.is_again) {
      again.push_back({{"value", value.name}, {"bytes", value.bytes}, {"flops", value.flops}});
    } else {
      kept.push_back({{"value", value.name}, {"bytes", value.bytes}});
    }
  }
  return {{"kept", kept}, {"again", again}};
}

// What a layer of the last kind keeps and computes again for one micro-batch of rank 0. If there
// are several kinds of layers, all of them follow.
Json recompute_json(const RunPlan& plan) {
  const std::vector<LayerRun> kinds = layer_kinds(plan.model);
  Json json = {{"policy", name_of(plan.shape.recompute)}};
  json.update(values_json(plan, kinds.back().first));
  if (kinds.size() == 1) return json;
  for (const LayerRun& kind : kinds) {
    Json of_kind = {{"first_layer", kind.first}, {"layers", kind.count}};
    of_kind.update(values_json(plan, kind.first));
    json["kinds"].push_back(std::move(of_kind));
  }
  return json;
}

Json model_json(const ModelSpec& model) {
  Json json = {{"family", name_of(model.family)},
               {"layers", model.layers},
               {"d_model", model.d_model},
               {"heads", model.heads},
               {"kv_heads", model.kv_heads},
               {"head_dim", model.head_dim},
               {"d_ff", model.d_ff},
               {"vocab_size", model.vocab_size},
               {"seq_len", model.seq_len}};
  if (model.mtp_depth > 0) json["mtp_depth"] = model.mtp_depth;
  if (model.reads_images()) {
    json["image_size"] = model.image_size;
    json["image_channels"] = model.image_channels;
  }
  return json;
}

Json data_json(const DataFacts& data) {
  Json files = Json::array();
  for (const DataFacts::File& file : data.files) {
    files.push_back({{"use", file.use},
                     {"path", file.path},
                     {"tokens", file.tokens},
                     {"documents", file.documents}});
    if (file.share) files.back()["share"] = number(*file.share);
  }
  return files;
}

// Leaves out the numbers that are not known.
Json baselines_json(const DataFacts& data) {
  Json json = Json::object();
  const auto add = [&](const char* name, double value) {
    if (value > 0.0) json[name] = number(value);
  };
  add("uniform", data.uniform);
  add("unigram", data.unigram);
  add("bigram", data.bigram);
  add("entropy", data.entropy);
  add("bytes_per_token", data.bytes_per_token);
  if (data.counted_tokens > 0) json["counted"] = data.counted_tokens;
  return json;
}

Json known_or_null(double value) { return value > 0.0 ? Json(value) : Json(nullptr); }

std::string flops_convention(const ModelSpec& model, const StageShape& shape) {
  if (model.reads_images()) {
    return "6 per weight and use of it in an image, head included; no recomputation";
  }
  std::string documents;
  if (shape.documents) {
    documents = shape.document_keys == 0.0 ? ", as if every sequence were one document"
                                           : " within documents (document_keys)";
  }
  return fmt::format(
      "6 per matmul weight and token, head included, plus causal attention{}; no recomputation",
      documents);
}

Json common(const RunPlan& plan) {
  // The traffic of the router is known only on average.
  const bool moves_visits = expert_strategy(plan.shape) == ExpertStrategy::AllToAll;
  const Json on_average = moves_visits ? Json::array({"ep"}) : Json::array();
  Json json = {{"params", plan.num_params},
               {"active_params", num_active_params(plan.model)},
               {"traffic_predicted_on_average", on_average},
               {"model_flops_per_token", plan.flops_per_token.total()},
               {"flops_convention", flops_convention(plan.model, plan.shape)},
               {"tokens_per_step", plan.tokens_per_step()},
               {"global_sequences", plan.global_sequences},
               {"micro_sequences", plan.shape.micro_sequences},
               {"grad_accum_steps", plan.num_microbatches},
               {"threads_per_rank", plan.num_threads},
               {"schedule", plan.schedule.kind},
               {"model", model_json(plan.model)}};
  // How many keys a query sees on average; null: unknown.
  if (plan.shape.documents) json["document_keys"] = known_or_null(plan.shape.document_keys);
  return json;
}

// Ops of all layers as one each; empty if no step was timed.
Json compared_ops(const OpComparison& ops) {
  const std::vector<OpTimes> predicted = sum_of_layers(ops.predicted);
  const std::vector<OpTimes> measured = sum_of_layers(ops.measured);
  Json json = Json::array();
  for (size_t i = 0; i < measured.size(); ++i) {
    json.push_back({{"unit", measured[i].unit},
                    {"op", measured[i].op},
                    {"predicted_s", number(total_s(predicted[i].seconds))},
                    {"measured_s", number(total_s(measured[i].seconds))},
                    {"predicted_halves_s", predicted[i].seconds},
                    {"measured_halves_s", measured[i].seconds}});
  }
  return json;
}

}  // namespace

Json planned_rank(const RunPlan& plan, const Predictions& predicted, int position) {
  const RankPlan rank = rank_plan(plan, position);
  const RankPrediction& prediction = predicted.at(position);
  return {{"rank", position},
          {"coords", to_json(rank.coords)},
          {"memory", {{"predicted", predicted_memory(rank.memory)}}},
          {"checkpoints_in_memory", memory_checkpoint_bytes(plan, rank)},
          {"traffic", {{"predicted", to_json(prediction.traffic)}}},
          {"time", {{"predicted", to_json(prediction.time)}}},
          {"program", to_string(rank.program, plan.schedule.num_chunks)}};
}

std::string plan_json(const RunPlan& plan, const Predictions& predicted, const Hardware& hardware) {
  Json json = common(plan);
  const double step_s = predicted.step_s();
  const double tokens_per_s = double(plan.tokens_per_step()) / step_s;
  json["step_s"] = json["step"] = number(step_s);
  json["tokens_per_s"] = number(tokens_per_s);
  json["mfu"] = number(tokens_per_s * plan.flops_per_token.total() /
                       (peak_flops(plan, hardware) * plan.num_ranks()));
  json["peak"] = plan.greatest_peak_bytes();
  json["arena"] = plan.largest().memory.arena_bytes;
  json["recompute"] = recompute_json(plan);
  json["classes"] = Json::array();
  for (const PredictedClass& alike : predicted.classes) {
    json["classes"].push_back(class_json(plan, alike));
    if (!hardware.is_mixed()) continue;
    json["classes"].back()["device"] = hardware.all_of_device(hardware.device_of(alike.first)).name;
    if (hardware.nodes().are_equal()) continue;
    json["classes"].back()["ranks_per_node"] = hardware.nodes().size_at(alike.first);
  }
  if (plan.num_ranks() <= kMostListedRanks) {
    json["ranks"] = Json::array();
    for (int position = 0; position < plan.num_ranks(); ++position) {
      json["ranks"].push_back(planned_rank(plan, predicted, position));
    }
  }
  return json_text(json, 2) + "\n";
}

std::string summary_json(const RunPlan& plan, const Predictions& predicted,
                         const std::vector<RankMeasurement>& measured, const RunSummary& summary) {
  Json json = common(plan);
  const double tokens_per_s =
      summary.step_s > 0.0 ? double(plan.tokens_per_step()) / summary.step_s : 0.0;
  json["end"] = summary.end;
  if (summary.is_late) json["from_metrics"] = true;
  json["steps"] = summary.steps;
  json["final_loss"] = number(summary.final_loss);
  if (summary.val_loss > 0.0) json["val_loss"] = number(summary.val_loss);
  if (summary.bits_per_byte > 0.0) json["bits_per_byte"] = number(summary.bits_per_byte);
  if (summary.val_accuracy) json["val_accuracy"] = number(*summary.val_accuracy);
  if (summary.best.is_known()) {
    json["best_val_loss"] = number(summary.best.loss);
    json["best_step"] = summary.best.step;
  }
  if (summary.epoch) json["epoch"] = number(*summary.epoch);
  json["step_s"] = number(summary.step_s);
  const double predicted_s = predicted.step_s();
  const bool is_predicted = predicted_s > 0.0;  // not in a late summary
  json["step_s_predicted"] = is_predicted ? number(predicted_s) : Json(nullptr);
  json["step_s_error"] = is_predicted ? number(predicted_s / summary.step_s - 1.0) : Json(nullptr);
  json["cores_taken_by_others"] = number(summary.taken_by_others);
  json["step_s_undisturbed"] = number(summary.step_s * summary.share_left);
  json["hardware"] = summary.hardware;
  json["tokens_per_s"] = number(tokens_per_s);
  json["mfu"] = summary.peak_flops > 0.0
                    ? number(tokens_per_s * plan.flops_per_token.total() / summary.peak_flops)
                    : Json(nullptr);
  json["mfu_formula"] = "tokens_per_s * model_flops_per_token / peak_flops";
  json["peak_flops"] = number(summary.peak_flops);
  if (summary.raised_peak) {
    json["peak_flops_at_start"] = number(summary.raised_peak->before);
    json["peak_flops_raised_at_step"] = summary.raised_peak->step;
  }
  json["skipped_steps"] = summary.skipped_steps;
  if (summary.left_out_samples > 0) json["left_out_samples"] = summary.left_out_samples;
  json["saves"] = summary.saves.saved;
  json["failed_saves"] = summary.saves.failed;
  json["late_saves"] = summary.saves.late;
  json["snapshot_stall_s"] = number(summary.saves.stall_s);
  json["memory_saves"] = summary.saves.in_memory;
  json["memory_stall_s"] = number(summary.saves.memory_stall_s);
  json["memory_sent_bytes"] = summary.saves.memory_sent_bytes;
  json["memory_skipped"] = summary.saves.memory_skipped;
  json["memory_most_apart"] = summary.saves.memory_most_apart;
  json["memory_most_redone"] = summary.saves.memory_most_redone;
  const CorruptionCounts& checks = summary.corruption_checks;
  if (checks.state_checks + checks.replays + checks.replays_elsewhere + checks.products > 0) {
    json["corruption_checks"] = {{"state_checks", checks.state_checks},
                                 {"state_check_s", checks.state_check_s},
                                 {"compared_bytes", checks.compared_bytes},
                                 {"state_bytes", checks.state_bytes},
                                 {"replays", checks.replays},
                                 {"replay_s", checks.replay_s},
                                 {"replays_elsewhere", checks.replays_elsewhere},
                                 {"replay_elsewhere_s", checks.replay_elsewhere_s},
                                 {"products", checks.products},
                                 {"products_s", checks.products_s}};
  }
  for (const CorruptionAlarm& alarm : summary.corruptions) {
    json["corruptions"].push_back(corruption_json(alarm));
  }
  for (const RunSummary::WentBack& back : summary.went_back) {
    json["went_back"].push_back(
        {{"after_step", back.after_step}, {"to_step", back.latest_step}, {"why", back.why}});
  }
  if (summary.noise_scale > 0.0) json["noise_scale"] = number(summary.noise_scale);
  if (summary.survived) {
    const SurvivedFailures& survived = *summary.survived;
    json["failures"] = survived.failures;
    json["redone_steps"] = survived.redone_steps;
    json["effective"] = number(survived.effective);
    json["lost_s"] = {{"failures", number(survived.lost_s)}};
  }
  json["goodput"] = goodput_json(summary.goodput);
  json["data"] = data_json(summary.data);
  json["baselines"] = baselines_json(summary.data);
  json["rss_peak"] = summary.rss_peak_bytes;
  json["seconds"] = number(summary.seconds);
  json["environment"] = Json::object();
  for (const auto& [key, value] : summary.environment) json["environment"][key] = value;
  json["diagnosis"] = diagnosis_json(summary.findings);
  json["ops"] = compared_ops(summary.ops);
  json["ranks"] = Json::array();
  for (size_t i = 0; i < measured.size(); ++i) {
    json["ranks"].push_back(measured_rank(plan, predicted, int(i), measured[i]));
  }
  for (const char* key : kUnknownIfLate) {
    if (summary.is_late) json.erase(key);
  }
  return json_text(json, 2) + "\n";
}

}  // namespace trireme
