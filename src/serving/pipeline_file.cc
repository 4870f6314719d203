#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/nearest_name.h"
#include "config/bounded_field.h"
#include "config/config_load.h"
#include "serving/file_keys.h"
#include "serving/language_model_file.h"
#include "serving/serving_files.h"

namespace trireme {
namespace {

constexpr double kMostItemBytes = 1e15;
constexpr double kMostTokens = 1e8;
constexpr double kMostLatency = 1e9;
constexpr int64_t kMostOperators = 32;
constexpr int64_t kMostModels = 64;

struct WrittenInput {
  std::string name, where;
  double items = 0.0;
};
struct WrittenModel : ServedModel {
  std::string where;
};
struct WrittenOperator {
  std::string name, where;
  double weight = 1.0;
  std::vector<WrittenInput> inputs;
  std::vector<WrittenModel> models;
};
struct WrittenSource : Source {
  std::string where;
};
struct WrittenCombination {
  std::string name, where;
  double accuracy = -1.0;
  std::vector<std::pair<std::string, std::string>> models;  // of an operator
};
struct WrittenPipeline {
  ServedPipeline pipeline;
  std::vector<WrittenSource> sources;
  std::vector<WrittenOperator> operators;
  std::vector<WrittenCombination> combinations;
};

std::string did_you_mean(const std::string& name, const std::vector<std::string>& names) {
  const std::string nearest = nearest_name(name, names);
  if (!nearest.empty()) return "; did you mean " + nearest + "?";
  return names.empty() ? "" : fmt::format("; there are {}", fmt::join(names, ", "));
}

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

void check_sources(const WrittenPipeline& written, const Tiers& tiers,
                   std::vector<std::string>& problems) {
  for (const WrittenSource& source : written.sources) {
    const auto refuse = [&](const std::string& why) {
      problems.push_back(fmt::format("{}: [sources.{}] {}", source.where, source.name, why));
    };
    if (source.tier.empty()) {
      refuse("must say in which tier its items arise");
    } else if (tiers.tier_named(source.tier) < 0) {
      refuse(fmt::format("is in the tier {}, which the tiers do not have{}", source.tier,
                         did_you_mean(source.tier, names_of(tiers.tiers))));
    }
    if (source.items_per_s <= 0.0) refuse("must say items_per_s");
    if (index_named(written.operators, source.name) >= 0) {
      refuse("has the name of an operator");
    }
  }
}

void check_models(const WrittenOperator& one, const Tiers& tiers,
                  std::vector<std::string>& problems) {
  for (const WrittenModel& model : one.models) {
    const auto refuse = [&](const std::string& why) {
      problems.push_back(
          fmt::format("{}: [operators.{}.models.{}] {}", model.where, one.name, model.name, why));
    };
    for (const auto& [kind, speed] : model.speeds) {
      if (index_named(tiers.kinds, kind) >= 0) continue;
      refuse(fmt::format("has a speed on {}, of which the tiers have no workers{}", kind,
                         did_you_mean(kind, names_of(tiers.kinds))));
    }
    for (const auto& [kind, file] : model.measured) {
      if (index_named(tiers.kinds, kind) < 0) {
        refuse(fmt::format("has a measurement on {}, of which the tiers have no workers{}", kind,
                           did_you_mean(kind, names_of(tiers.kinds))));
      }
      if (model.speeds.contains(kind)) {
        refuse(
            fmt::format("has both a speed and a measurement on {}: leave one of them out", kind));
      }
    }
    const LanguageModelUse& use = model.language_model;
    if (use.file.empty() && !model.measured.empty()) {
      refuse(
          "has a measurement of generate but names no language model, such as model = "
          "\"../../models/llama3-8b.toml\"");
    }
    if (use.batch > 1 && !model.measured.empty()) {
      refuse("has a measurement of generate, which does one request at a time: set batch = 1");
    }
    if (!use.file.empty() && use.prompt_tokens == 0) {
      refuse("is a language model, so it must say prompt_tokens and output_tokens");
    }
    if (use.file.empty() && (use.prompt_tokens > 0 || use.output_tokens > 0)) {
      refuse("counts tokens but names no model, such as model = \"../../models/llama3-8b.toml\"");
    }
    if (use.file.empty() && model.speeds.empty()) {
      refuse(
          "has no speeds: say how many items per second one worker of a kind does, such as "
          "speeds = { NAME = 20.0 }, or name a language model with model");
    }
  }
}

void check_operators(const WrittenPipeline& written, const Tiers& tiers, const std::string& source,
                     std::vector<std::string>& problems) {
  if (written.sources.empty()) {
    problems.push_back(fmt::format("{}: no source: add [sources.NAME] with items_per_s", source));
  }
  if (written.operators.empty()) {
    problems.push_back(fmt::format("{}: no operator: add [operators.NAME]", source));
  }
  if (int64_t(std::max(written.operators.size(), written.sources.size())) > kMostOperators) {
    problems.push_back(
        fmt::format("{}: more than {} operators or sources", source, kMostOperators));
  }
  std::vector<std::string> names = names_of(written.sources);
  for (const WrittenOperator& one : written.operators) names.push_back(one.name);
  for (const WrittenOperator& one : written.operators) {
    const auto refuse = [&](const std::string& why) {
      problems.push_back(fmt::format("{}: [operators.{}] {}", one.where, one.name, why));
    };
    if (one.inputs.empty()) {
      refuse("reads nothing: add inputs = { NAME = 1.0 } with a source or an operator");
    }
    for (const WrittenInput& input : one.inputs) {
      if (std::find(names.begin(), names.end(), input.name) != names.end()) continue;
      problems.push_back(
          fmt::format("{}: [operators.{}] reads {}, which is no source and no "
                      "operator{}",
                      input.where, one.name, input.name, did_you_mean(input.name, names)));
    }
    if (one.models.empty()) {
      refuse(fmt::format("has no model: add [operators.{}.models.NAME]", one.name));
    }
    if (int64_t(one.models.size()) > kMostModels) {
      refuse(fmt::format("has more than {} models", kMostModels));
    }
    check_models(one, tiers, problems);
  }
}

// Returns a cycle of operators as text, such as "a reads b, which reads c, which reads a".
std::string circle_of(const std::vector<WrittenOperator>& rest) {
  std::vector<size_t> path = {0};
  while (true) {
    const WrittenOperator& one = rest[path.back()];
    // Each of the rest reads another one of the rest; else it would have been placed.
    size_t next = 0;
    for (const WrittenInput& input : one.inputs) {
      const int found = index_named(rest, input.name);
      if (found >= 0) next = size_t(found);
    }
    const auto begin = std::find(path.begin(), path.end(), next);
    if (begin == path.end()) {
      path.push_back(next);
      continue;
    }
    std::string text = rest[*begin].name;
    for (auto it = begin + 1; it != path.end(); ++it)
      text += " reads " + rest[*it].name + ", which";
    return text + " reads " + rest[next].name;
  }
}

// Puts every operator behind those that it reads. Returns false, with a problem, for a cycle.
bool sort_operators(WrittenPipeline& written, std::vector<std::string>& problems) {
  std::vector<WrittenOperator> rest = std::move(written.operators), sorted;
  while (!rest.empty()) {
    const auto is_ready = [&](const WrittenOperator& one) {
      return std::all_of(one.inputs.begin(), one.inputs.end(), [&](const WrittenInput& input) {
        return index_named(rest, input.name) < 0;
      });
    };
    const auto ready = std::find_if(rest.begin(), rest.end(), is_ready);
    if (ready == rest.end()) {
      problems.push_back(fmt::format(
          "{}: the operators have a cycle: {}. Data flow one way, so take one of these inputs out",
          rest.front().where, circle_of(rest)));
      return false;
    }
    sorted.push_back(std::move(*ready));
    rest.erase(ready);
  }
  written.operators = std::move(sorted);
  return true;
}

// Items that are joined arrive together, so their sources have one rate.
void check_joined_sources(const WrittenOperator& one, const std::vector<Source>& sources,
                          uint64_t origins, std::vector<std::string>& problems) {
  const Source* first = nullptr;
  for (size_t i = 0; i < sources.size(); ++i) {
    if ((origins >> i & 1) == 0) continue;
    if (first == nullptr) first = &sources[i];
    if (sources[i].items_per_s == first->items_per_s) continue;
    problems.push_back(fmt::format(
        "{}: [operators.{}] joins items of the sources {} and {}, which must have the same "
        "items_per_s",
        one.where, one.name, first->name, sources[i].name));
  }
}

void take_operators(const WrittenPipeline& written, ServedPipeline& pipeline,
                    std::vector<std::string>& problems) {
  std::vector<double> rates;
  std::vector<uint64_t> origins;  // [operator] its sources, as bits
  for (const WrittenOperator& one : written.operators) {
    Operator& taken = pipeline.operators.emplace_back();
    taken.name = one.name;
    taken.weight = one.weight;
    taken.models.assign(one.models.begin(), one.models.end());
    uint64_t from = 0;
    for (const WrittenInput& input : one.inputs) {
      const int source = index_named(written.sources, input.name);
      const int op = index_named(written.operators, input.name);
      taken.inputs.push_back({source >= 0, source >= 0 ? source : op, input.items});
      from |= source >= 0 ? uint64_t{1} << source : origins[size_t(op)];
      const double rate = input.items * (source >= 0 ? written.sources[size_t(source)].items_per_s
                                                     : rates[size_t(op)]);
      if (taken.inputs.size() == 1) rates.push_back(rate);
      if (std::abs(rate - rates.back()) > 1e-9 * rate) {
        problems.push_back(fmt::format(
            "{}: [operators.{}] joins one item of each input, but {} brings {:.6g} and {} {:.6g} "
            "items per second: change the numbers of inputs",
            one.where, one.name, one.inputs.front().name, rates.back(), input.name, rate));
      }
    }
    origins.push_back(from);
    check_joined_sources(one, pipeline.sources, from, problems);
  }
}

void take_combinations(const WrittenPipeline& written, ServedPipeline& pipeline,
                       std::vector<std::string>& problems) {
  for (const WrittenCombination& combination : written.combinations) {
    const auto refuse = [&](const std::string& why) {
      problems.push_back(
          fmt::format("{}: [combinations.{}] {}", combination.where, combination.name, why));
    };
    MeasuredCombination measured{ModelChoice(pipeline.operators.size(), -1), combination.accuracy};
    if (combination.accuracy < 0.0) refuse("must say its accuracy");
    for (const auto& [op_name, model_name] : combination.models) {
      const int op = index_named(pipeline.operators, op_name);
      if (op < 0) {
        refuse(fmt::format("names the operator {}, which is not there{}", op_name,
                           did_you_mean(op_name, names_of(pipeline.operators))));
        continue;
      }
      const std::vector<ServedModel>& models = pipeline.operators[size_t(op)].models;
      measured.choice[size_t(op)] = index_named(models, model_name);
      if (measured.choice[size_t(op)] >= 0) continue;
      refuse(fmt::format("names the model {} of {}, which is not there{}", model_name, op_name,
                         did_you_mean(model_name, names_of(models))));
    }
    for (size_t op = 0; op < measured.choice.size(); ++op) {
      const std::string& name = pipeline.operators[op].name;
      const bool is_named = std::any_of(combination.models.begin(), combination.models.end(),
                                        [&](const auto& named) { return named.first == name; });
      if (!is_named) refuse(fmt::format("must name the model of the operator {}", name));
    }
    pipeline.combinations.push_back(std::move(measured));
  }
  const bool is_measured = pipeline.rule == AccuracyRule::Measured;
  if (is_measured && written.combinations.empty()) {
    problems.push_back(
        "pipeline.accuracy_rule = \"measured\" needs [combinations.NAME] with the accuracy of "
        "every combination of models that may be chosen");
  }
  if (!is_measured && !written.combinations.empty()) {
    problems.push_back(fmt::format(
        "{}: [combinations.{}] has no effect unless pipeline.accuracy_rule = \"measured\"",
        written.combinations.front().where, written.combinations.front().name));
  }
}

// Fills in the memory of language models and their speeds on the kinds whose device is known.
void price_models(const WrittenPipeline& written, const std::string& folder, const Tiers& tiers,
                  ServedPipeline& pipeline, std::vector<std::string>& problems) {
  for (size_t op = 0; op < pipeline.operators.size(); ++op) {
    for (size_t i = 0; i < pipeline.operators[op].models.size(); ++i) {
      ServedModel& model = pipeline.operators[op].models[i];
      if (model.language_model.file.empty()) continue;
      const Status priced = price_language_model(folder, tiers, model);
      if (priced.ok()) continue;
      problems.push_back(
          fmt::format("{}: [operators.{}.models.{}] {}", written.operators[op].models[i].where,
                      pipeline.operators[op].name, model.name, priced.error().message));
    }
  }
}

}  // namespace

Result<ServedPipeline> parse_pipeline(std::string_view text, const std::string& source,
                                      const std::string& folder, const Tiers& tiers) {
  TRIREME_TRY(assignments, parse_config_text(text, source));
  WrittenPipeline written;
  std::vector<std::string> problems;
  for (const ConfigAssignment& assignment : assignments) {
    const Status assigned = assign_pipeline(written, assignment);
    if (assigned.ok()) continue;
    problems.push_back(fmt::format("{}: {}", assignment.origin.where(), assigned.error().message));
  }
  if (problems.empty()) {
    check_sources(written, tiers, problems);
    check_operators(written, tiers, source, problems);
  }
  ServedPipeline pipeline = written.pipeline;
  if (problems.empty() && sort_operators(written, problems)) {
    pipeline.sources.assign(written.sources.begin(), written.sources.end());
    take_operators(written, pipeline, problems);
    take_combinations(written, pipeline, problems);
    if (problems.empty()) price_models(written, folder, tiers, pipeline, problems);
  }
  if (!problems.empty()) return usage(fmt::format("{}", fmt::join(problems, "\n")));
  if (pipeline.name.empty()) pipeline.name = std::filesystem::path(source).stem().string();
  return pipeline;
}

Result<ServedPipeline> load_pipeline(const std::string& path, const Tiers& tiers) {
  TRIREME_TRY(text, read_config_file(path));
  return parse_pipeline(text, path, std::filesystem::path(path).parent_path().string(), tiers);
}

}  // namespace trireme
