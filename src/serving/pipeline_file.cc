#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "serving/file_keys.h"
#include "serving/language_model_file.h"
#include "serving/serving_files.h"
#include "serving/written_pipeline.h"

namespace trireme {
namespace {

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
  if (problems.empty()) check_pipeline(written, tiers, source, problems);
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
