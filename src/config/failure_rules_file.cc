#include "config/failure_rules_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "base/nearest_name.h"
#include "config/bounded_field.h"
#include "config/config_load.h"
#include "config/config_toml.h"
#include "failures/failure_class.h"
#include "trireme_config_text.h"

namespace trireme {
namespace {

constexpr const char* kKinds[] = {"killed", "crashed", "failed", "hang", "host", "lost"};

// A rule as it stands in the file.
struct WrittenRule {
  FailureRule rule;
  std::string pattern;
};

struct WrittenRules {
  std::vector<WrittenRule> rules;
  FailureRules result;  // what is known about classes
};

std::vector<BoundedField> rule_fields(WrittenRule& written) {
  FailureRule& rule = written.rule;
  return {choice_field("class", rule.failure_class, kFailureClassNames),
          number_field("confidence", &rule.confidence, 0.01, 1.0),
          word_field("pattern", &written.pattern),
          choice_field("in", rule.in, kEvidenceTextNames),
          word_field("kind", &rule.kind),
          number_field("signal", &rule.signal, 1, 64),
          number_field("exit_code", &rule.exit_code, 1, 255),
          choice_field("counter", rule.counter, kEvidenceCounterNames),
          word_field("remedy", &rule.remedy)};
}

std::vector<BoundedField> advice_fields(ClassAdvice& advice) {
  return {word_field("user", &advice.user), word_field("system", &advice.system),
          word_field("hardware", &advice.hardware), word_field("remedy", &advice.remedy)};
}

WrittenRule& rule_named(WrittenRules& written, const std::string& name,
                        const ConfigAssignment& assignment) {
  for (WrittenRule& one : written.rules) {
    if (one.rule.name == name) return one;
  }
  WrittenRule& added = written.rules.emplace_back();
  added.rule.name = name;
  added.rule.where = assignment.origin.where();
  return added;
}

Status assign_advice(FailureRules& rules, const std::string& name, const std::string& field,
                     const ConfigAssignment& assignment) {
  const auto* found = std::find(std::begin(kFailureClassNames), std::end(kFailureClassNames), name);
  if (found != std::end(kFailureClassNames)) {
    ClassAdvice& advice = rules.advice[size_t(found - std::begin(kFailureClassNames))];
    return assign_bounded(advice_fields(advice), field, assignment);
  }
  const std::vector<std::string> names(std::begin(kFailureClassNames),
                                       std::end(kFailureClassNames));
  const std::string nearest = nearest_name(name, names);
  return usage(fmt::format("[classes.\"{}\"] is no class of failures{}", name,
                           nearest.empty() ? fmt::format("; use {}", fmt::join(names, ", "))
                                           : "; did you mean " + nearest + "?"));
}

Status assign_rules(WrittenRules& written, const ConfigAssignment& assignment) {
  const std::string& key = assignment.key;
  const size_t first = key.find('.'), last = key.rfind('.');
  const std::string section = key.substr(0, first);
  const bool is_known = section == "rules" || section == "classes";
  if (!is_known) {
    return usage(
        fmt::format("{} is unknown; failure rules have [rules.NAME] and [classes.NAME]", key));
  }
  if (first == std::string::npos || last <= first + 1) {
    return usage(fmt::format("{0} has no keys: write them below [{1}.NAME]", key, section));
  }
  const std::string name = key.substr(first + 1, last - first - 1), field = key.substr(last + 1);
  if (section == "classes") return assign_advice(written.result, name, field, assignment);
  return assign_bounded(rule_fields(rule_named(written, name, assignment)), field, assignment);
}

// Reads the pattern, and refuses a rule that cannot be used.
Status finish_rule(WrittenRule& written) {
  FailureRule& rule = written.rule;
  if (rule.failure_class == FailureClass::Unknown) {
    return usage("needs a class other than unknown, which is what no rule gives");
  }
  if (!written.pattern.empty()) {
    Result<TextPattern> pattern = TextPattern::parse(written.pattern);
    if (!pattern.ok()) return usage("pattern " + pattern.error().message);
    rule.pattern = std::move(*pattern);
  }
  const bool is_kind =
      std::find(std::begin(kKinds), std::end(kKinds), rule.kind) != std::end(kKinds);
  if (!rule.kind.empty() && !is_kind) {
    return usage(
        fmt::format("kind = \"{}\" is unknown; use {}", rule.kind, fmt::join(kKinds, ", ")));
  }
  const bool matches_all = rule.pattern.empty() && rule.kind.empty() && rule.signal == 0 &&
                           rule.exit_code < 0 && rule.counter == EvidenceCounter::None;
  if (matches_all) {
    return usage(
        "matches every failure: add a pattern, kind, signal, exit_code or counter that must hold");
  }
  return Done{};
}

}  // namespace

Result<FailureRules> parse_failure_rules(std::string_view text, const std::string& source,
                                         FailureRules base) {
  TRIREME_TRY(assignments, parse_config_text(text, source));
  WrittenRules written;
  written.result.advice = base.advice;
  std::vector<std::string> problems;
  for (const ConfigAssignment& assignment : assignments) {
    const Status assigned = assign_rules(written, assignment);
    if (assigned.ok()) continue;
    problems.push_back(fmt::format("{}: {}", assignment.origin.where(), assigned.error().message));
  }
  for (WrittenRule& one : written.rules) {
    if (!problems.empty()) break;  // a class that could not be read would be reported twice
    const Status finished = finish_rule(one);
    if (!finished.ok()) {
      problems.push_back(fmt::format("{}: [rules.{}] {}", one.rule.where, one.rule.name,
                                     finished.error().message));
    }
  }
  if (!problems.empty()) return usage(fmt::format("{}", fmt::join(problems, "\n")));
  FailureRules rules = std::move(written.result);
  for (WrittenRule& one : written.rules) rules.rules.push_back(std::move(one.rule));
  const auto is_replaced = [&](const FailureRule& rule) {
    return std::any_of(rules.rules.begin(), rules.rules.end(),
                       [&](const FailureRule& other) { return other.name == rule.name; });
  };
  std::erase_if(base.rules, is_replaced);
  std::move(base.rules.begin(), base.rules.end(), std::back_inserter(rules.rules));
  return rules;
}

FailureRules built_in_failure_rules() {
  return parse_failure_rules(embedded::kFailureRulesToml, "failures/failure_rules.toml").value();
}

Result<FailureRules> load_failure_rules(const std::string& path) {
  TRIREME_TRY(text, read_config_file(path));
  return parse_failure_rules(text, path, built_in_failure_rules());
}

}  // namespace trireme
