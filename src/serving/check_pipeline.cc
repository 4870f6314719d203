#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/nearest_name.h"
#include "serving/file_keys.h"
#include "serving/written_pipeline.h"

namespace trireme {
namespace {

constexpr int64_t kMostOperators = 32;
constexpr int64_t kMostModels = 64;

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

}  // namespace

std::string did_you_mean(const std::string& name, const std::vector<std::string>& names) {
  const std::string nearest = nearest_name(name, names);
  if (!nearest.empty()) return "; did you mean " + nearest + "?";
  return names.empty() ? "" : fmt::format("; there are {}", fmt::join(names, ", "));
}

void check_pipeline(const WrittenPipeline& written, const Tiers& tiers, const std::string& source,
                    std::vector<std::string>& problems) {
  check_sources(written, tiers, problems);
  check_operators(written, tiers, source, problems);
}

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

}  // namespace trireme
