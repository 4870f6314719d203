#include "cli/plan_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/units.h"
#include "cli/number_text.h"
#include "planner/plan_warnings.h"
#include "predict/predict.h"
#include "program/action_legend.h"
#include "schema/image_net.h"
#include "schema/mesh.h"
#include "session/add_data_facts.h"
#include "train/planned_shard.h"

namespace trireme {
namespace {

std::string table_line(const std::string& name, const std::string& value) {
  return fmt::format("  {:<22}{:>14}\n", name, value);
}

// Breaks the legend of a program at its commas into lines that fit a terminal.
std::string legend_lines(const std::string& legend) {
  constexpr size_t kWidth = 88;
  std::string text, line;
  for (size_t begin = 0; begin < legend.size();) {
    const size_t end = std::min(legend.find(", ", begin), legend.size());
    const std::string part = legend.substr(begin, end - begin) + (end < legend.size() ? "," : "");
    if (!line.empty() && line.size() + 1 + part.size() > kWidth) {
      text += "           " + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + part;
    begin = end + 2;
  }
  return text + "           " + line + "\n";
}

std::string model_line(const ModelSpec& model) {
  if (model.reads_images()) {
    return fmt::format(
        "model      {} with {} layers, images of {} x {} with {} channel{}, {} classes\n",
        name_of(model.family), model.layers, model.image_size, model.image_size,
        model.image_channels, model.image_channels == 1 ? "" : "s", model.vocab_size);
  }
  return fmt::format(
      "model      {} layers x {} (heads {}/{} x {}, d_ff {}), vocabulary {}, {} tokens\n",
      model.layers, model.d_model, model.heads, model.kv_heads, model.head_dim, model.d_ff,
      model.vocab_size, model.seq_len);
}

// Says where the modules of multi-token prediction are.
std::string place_of_modules(const RunPlan& plan) {
  const int64_t layers = plan.stages.back().num_layers;
  if (plan.stages.size() == 1) return "in the only stage";
  if (layers == 0) return "on a stage of their own with the head";
  return fmt::format("on the last stage with {} layer{} and the head", layers,
                     layers == 1 ? "" : "s");
}

// An image is a sequence of one token.
std::string batch_line(const RunPlan& plan) {
  const std::string samples =
      plan.model.reads_images()
          ? format_counted(plan.global_sequences, "image")
          : fmt::format("{} = {}", format_counted(plan.global_sequences, "sequence"),
                        format_counted(plan.tokens_per_step(), "token"));
  return fmt::format("batch      {} a step: {} micro-batch{} of {} on {} thread{}\n", samples,
                     plan.num_microbatches, plan.num_microbatches == 1 ? "" : "es",
                     plan.shape.micro_sequences, plan.num_threads,
                     plan.num_threads == 1 ? "" : "s");
}

// Says which share of the scores attention computes if documents do not see each other.
std::string documents_line(const RunPlan& plan, const OpenInput& open_input) {
  if (!plan.shape.documents) return "";
  if (plan.shape.document_keys == 0.0) {
    const Result<double> keys = measure_document_keys(plan.config, plan.model, open_input);
    return fmt::format(
        "documents  their lengths are unknown, so attention is priced as if every sequence were\n"
        "           one document{}\n",
        keys.ok() ? "" : ": " + keys.error().message);
  }
  const double whole = 0.5 * double(plan.model.seq_len + 1);
  return fmt::format(
      "documents  a query sees {:.1f} keys of its document on average, {:.0f} % of the {:.1f} that "
      "it\n"
      "           would see without data.document_mask\n",
      plan.shape.document_keys, 100.0 * plan.shape.document_keys / whole, whole);
}

}  // namespace

std::string describe_plan(const RunPlan& plan, const OpenInput& open_input) {
  const ModelSpec& model = plan.model;
  std::string text = model_line(model);
  text +=
      fmt::format("parameters {} ({}){}\n", plan.num_params, format_count(double(plan.num_params)),
                  plan.model.trains_in_part()
                      ? fmt::format(", {} of them trained", num_trained_params(plan.model))
                      : "");
  if (plan.model.has_experts()) {
    const int64_t active = num_active_params(plan.model);
    const std::string shared =
        model.shared_experts > 0 ? fmt::format(" and {} shared", model.shared_experts) : "";
    text += fmt::format(
        "experts    {} per layer; a token visits {} of them{} and uses {} of the parameters\n",
        model.experts, model.top_k, shared, format_count(double(active)));
  }
  if (model.mtp_depth > 0) {
    const int64_t of_modules = plan.num_params - num_params(without_modules(model));
    text += fmt::format(
        "modules    {} behind the last layer, {}, {} of the parameters: each predicts one token "
        "further ahead\n",
        model.mtp_depth, place_of_modules(plan), format_count(double(of_modules)));
  }
  text += fmt::format("FLOPs      {} per {} and training step{}\n",
                      format_count(plan.flops_per_token.total()), counted_unit(model),
                      model.reads_images() ? "" : " (causal attention)");
  text += documents_line(plan, open_input);
  text += batch_line(plan);
  if (plan.num_ranks() > 1) {
    const std::string ep = plan.mesh.ep == 1 ? "" : fmt::format(" (ep {} of it)", plan.mesh.ep);
    text += fmt::format("ranks      {} = {}{}, schedule {}, ZeRO {}\n", plan.num_ranks(),
                        degrees_text(plan.mesh), ep, plan.schedule.kind, plan.config.parallel.zero);
  }
  const RankPlan& rank = plan.pipeline.front();
  const std::string program = to_string(rank.program, plan.schedule.num_chunks);
  text += fmt::format("program    {}\n",
                      program.size() > 100 ? program.substr(0, 96) + " ..." : program);
  text += legend_lines(action_legend(rank.program, plan.schedule.num_chunks));
  text += "memory of rank 0\n";
  for (int c = 0; c < kNumMemoryClasses; ++c) {
    if (rank.memory.class_bytes[c] == 0) continue;
    text += table_line(std::string(name_of(static_cast<MemoryClass>(c))),
                       format_bytes(rank.memory.class_bytes[c]));
  }
  text += table_line("in use at once", format_bytes(rank.memory.peak_bytes));
  text += table_line("peak", format_bytes(rank.memory.arena_bytes));
  text += table_line("largest tensor", largest_tensor(rank.memory, rank.chunks));
  if (wants_memory_checkpoints(plan.config)) {
    text += table_line("in /dev/shm", format_bytes(memory_checkpoint_bytes(plan, rank)) +
                                          " beside it, for checkpoints in memory");
  }
  return text;
}

// Returns a line for each device of a mixed cluster, with the ranks that have it.
std::string device_lines(const RunPlan& plan, const Hardware& hardware) {
  std::string text;
  for (int device = 0; hardware.is_mixed() && device < hardware.num_devices(); ++device) {
    std::vector<std::string> classes;
    for (const RankClass& alike : plan.classes) {
      if (alike.device != device) continue;
      classes.push_back(fmt::format("{} from rank {} with {}", alike.num_ranks, alike.first,
                                    format_bytes(alike.memory.arena_bytes)));
    }
    const Hardware own = hardware.all_of_device(device);
    const std::string nodes = hardware.nodes().are_equal()
                                  ? ""
                                  : fmt::format(", nodes of {} ranks", own.nodes().size_at(0));
    text +=
        fmt::format("device     {} of {}{}: {}\n", own.name, format_bytes(own.memory_bytes), nodes,
                    classes.empty() ? "no ranks" : fmt::to_string(fmt::join(classes, ", ")));
  }
  return text;
}

std::string priced_line(const RunPlan& plan, const Hardware& hardware) {
  const double step_s = predicted_step_s(plan, hardware);
  return fmt::format("time       {} a step, {} {}s/s, predicted for {}\n", format_seconds(step_s),
                     format_rate(double(plan.tokens_per_step()) / step_s), counted_unit(plan.model),
                     hardware.name);
}

std::string warning_lines(const RunPlan& plan) {
  std::string text;
  for (const std::string& warning : plan_warnings(plan)) text += "warning: " + warning + "\n";
  return text;
}

}  // namespace trireme
