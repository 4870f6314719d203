#include "config/unknown_key.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/nearest_name.h"
#include "config/foreign_key.h"
#include "schema/run_config_fields.h"

namespace trireme {
namespace {

// The shortest part of a name that identifies it.
constexpr size_t kTellingLetters = 3;

// For "vocab" returns vocab_size, for "num_layers" layers: the candidate with the fewest other
// letters.
std::string containing(std::string_view name, const std::vector<std::string>& candidates) {
  std::string best;
  const auto others = [&](const std::string& candidate) {
    return std::max(candidate.size(), name.size()) - std::min(candidate.size(), name.size());
  };
  for (const std::string& candidate : candidates) {
    const std::string_view shorter = candidate.size() < name.size() ? candidate : name;
    const std::string_view longer = candidate.size() < name.size() ? name : candidate;
    if (shorter.size() < kTellingLetters || longer.find(shorter) == longer.npos) continue;
    if (best.empty() || others(candidate) < others(best)) best = candidate;
  }
  return best;
}

struct Keys {
  std::vector<std::string> all;         // such as "model.layers"
  std::vector<std::string> of_section;  // such as "layers"
  std::vector<std::string> same_name;   // the name in any section; else the name in other programs
};

Keys keys_of(std::string_view section, std::string_view name) {
  RunConfig config;
  Keys keys;
  for (const ConfigField& field : config_fields(config)) {
    keys.all.push_back(field.key());
    if (field.section == section) keys.of_section.emplace_back(field.name);
    if (field.name == name) keys.same_name.push_back(field.key());
  }
  const std::string foreign = key_of_foreign_name(name);
  if (keys.same_name.empty() && !foreign.empty()) keys.same_name.push_back(foreign);
  return keys;
}

std::string meant(const std::vector<std::string>& keys) {
  return fmt::format("did you mean {}?", fmt::join(keys, " or "));
}

std::string remedy(std::string_view key) {
  std::vector<std::string> sections;
  for (const ConfigSection& section : config_sections()) sections.emplace_back(section.name);
  const size_t dot = key.find('.');
  const std::string_view written = key.substr(0, dot);
  const std::string section = nearest_name(written, sections);
  if (dot == key.npos) {
    const Keys keys = keys_of("", key);
    if (!keys.same_name.empty()) return meant(keys.same_name);
    return section.empty() ? fmt::format("the sections are {}", fmt::join(sections, ", "))
                           : meant({fmt::format("[{}]", section)});
  }
  const std::string_view name = key.substr(dot + 1);
  const Keys keys = keys_of(section, name);
  const bool is_in_section =
      std::find(keys.of_section.begin(), keys.of_section.end(), name) != keys.of_section.end();
  if (is_in_section) return meant({fmt::format("{}.{}", section, name)});
  if (!keys.same_name.empty()) return meant(keys.same_name);
  for (const auto& find : {nearest_name, containing}) {
    const std::string found = find(name, keys.of_section);
    if (!found.empty()) return meant({fmt::format("{}.{}", section, found)});
  }
  const std::string foreign = key_near_foreign_name(name);
  if (!foreign.empty()) return meant({foreign});
  if (section.empty()) {
    const std::string nearest = nearest_name(key, keys.all);
    return nearest.empty() ? fmt::format("the sections are {}", fmt::join(sections, ", "))
                           : meant({nearest});
  }
  return fmt::format("[{}] has {}", section, fmt::join(keys.of_section, ", "));
}

// "tp" means parallel.tp, "schedule" has two meanings, "seq-len" means model.seq_len.
std::vector<std::string> keys_meant_by(std::string word) {
  std::replace(word.begin(), word.end(), '-', '_');
  const Keys keys = keys_of("", word);
  const bool is_key = std::find(keys.all.begin(), keys.all.end(), word) != keys.all.end();
  return is_key ? std::vector{word} : keys.same_name;
}

}  // namespace

std::string write_set(std::string_view word, std::string_view value) {
  std::vector<std::string> overrides;
  for (const std::string& key : keys_meant_by(std::string(word))) {
    overrides.push_back(fmt::format("--set {}={}", key, value));
  }
  return overrides.empty() ? "" : fmt::format("write {}", fmt::join(overrides, " or "));
}

std::string unknown_key_message(std::string_view key) {
  const bool is_section = key.find('.') == key.npos && keys_of("", key).same_name.empty();
  return fmt::format("{} is {}; {}", key, is_section ? "no section" : "unknown", remedy(key));
}

}  // namespace trireme
