#include "serving/written_pipeline.h"

#include <fmt/format.h>

#include "config/bounded_field.h"
#include "serving/file_keys.h"

namespace trireme {
namespace {

constexpr double kMostItemBytes = 1e15;
constexpr double kMostTokens = 1e8;
constexpr double kMostLatency = 1e9;

std::vector<BoundedField> pipeline_keys(ServedPipeline& pipeline) {
  return {word_field("name", &pipeline.name),
          number_field("accuracy", &pipeline.accuracy, 0, 1),
          number_field("utilization", &pipeline.utilization, 0.01, 1),
          number_field("mean_latency_s", &pipeline.latency.mean_s, 0, kMostLatency),
          number_field("p95_latency_s", &pipeline.latency.p95_s, 0, kMostLatency),
          choice_field("accuracy_rule", pipeline.rule, kAccuracyRuleNames)};
}

std::vector<BoundedField> model_keys(WrittenModel& model) {
  LanguageModelUse& use = model.language_model;
  return {number_field("accuracy", &model.accuracy, 0, 1),
          number_field("memory_bytes", &model.memory_bytes, 0, kMostItemBytes),
          number_field("output_bytes", &model.output_bytes, 0, kMostItemBytes),
          word_field("model", &use.file),
          number_field("prompt_tokens", &use.prompt_tokens, 1, kMostTokens),
          number_field("output_tokens", &use.output_tokens, 0, kMostTokens),
          number_field("batch", &use.batch, 1, 1e5)};
}

Status assign_operator(WrittenOperator& written, const std::vector<std::string>& parts,
                       const ConfigAssignment& assignment) {
  if (parts.size() == 3) {
    return assign_bounded({number_field("weight", &written.weight, 1e-9, 1e9)}, parts[2],
                          assignment);
  }
  if (parts.size() == 4 && parts[2] == "inputs") {
    WrittenInput& input = element_named(written.inputs, parts[3]);
    input.where = assignment.origin.where();
    return assign_bounded({number_field(parts[3], &input.items, 1e-6, 1e6)}, parts[3], assignment);
  }
  if (parts.size() >= 5 && parts[2] == "models") {
    WrittenModel& model = element_named(written.models, parts[3]);
    if (model.where.empty()) model.where = assignment.origin.where();
    if (parts.size() == 5) return assign_bounded(model_keys(model), parts[4], assignment);
    if (parts.size() == 6 && parts[4] == "speeds") {
      return assign_bounded({number_field(parts[5], &model.speeds[parts[5]], 0, kMostRate)},
                            parts[5], assignment);
    }
    if (parts.size() == 6 && parts[4] == "measured") {
      return assign_bounded({word_field(parts[5], &model.measured[parts[5]])}, parts[5],
                            assignment);
    }
  }
  return usage(fmt::format(
      "{} is unknown; an operator has weight, inputs = {{ NAME = ITEMS }} and models.NAME; names "
      "have no dots",
      assignment.key));
}

Status assign_combination(WrittenCombination& written, const std::string& name,
                          const ConfigAssignment& assignment) {
  if (name == "accuracy") {
    return assign_bounded({number_field(name, &written.accuracy, 0, 1)}, name, assignment);
  }
  auto& [op, model] = written.models.emplace_back(name, "");
  return assign_bounded({word_field(op, &model)}, name, assignment);
}

}  // namespace

Status assign_pipeline(WrittenPipeline& written, const ConfigAssignment& assignment) {
  const std::vector<std::string> parts = key_parts(assignment.key);
  if (parts.size() == 2 && parts[0] == "pipeline") {
    return assign_bounded(pipeline_keys(written.pipeline), parts[1], assignment);
  }
  if (parts.size() == 3 && parts[0] == "sources") {
    WrittenSource& source = element_named(written.sources, parts[1]);
    if (source.where.empty()) source.where = assignment.origin.where();
    return assign_bounded({word_field("tier", &source.tier),
                           number_field("items_per_s", &source.items_per_s, 1e-9, kMostRate),
                           number_field("item_bytes", &source.item_bytes, 0, kMostItemBytes)},
                          parts[2], assignment);
  }
  if (parts.size() >= 3 && parts[0] == "operators") {
    WrittenOperator& one = element_named(written.operators, parts[1]);
    if (one.where.empty()) one.where = assignment.origin.where();
    return assign_operator(one, parts, assignment);
  }
  if (parts.size() == 3 && parts[0] == "combinations") {
    WrittenCombination& combination = element_named(written.combinations, parts[1]);
    if (combination.where.empty()) combination.where = assignment.origin.where();
    return assign_combination(combination, parts[2], assignment);
  }
  return usage(
      fmt::format("{} is unknown; a pipeline has [pipeline], [sources.NAME], [operators.NAME], "
                  "[operators.NAME.models.NAME] and [combinations.NAME]; names have no dots",
                  assignment.key));
}

}  // namespace trireme
