#include "jobs/export_forms.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/json_text.h"

namespace trireme {
namespace {

constexpr int64_t kUsualNode = 8;

// Splits "a.b.c" into the sections "a.b" and the name "c".
std::pair<std::string, std::string> split_key(const std::string& key) {
  const size_t dot = key.rfind('.');
  if (dot == std::string::npos) return {"", key};
  return {key.substr(0, dot), key.substr(dot + 1)};
}

nlohmann::ordered_json& member(nlohmann::ordered_json& root, const std::string& key) {
  nlohmann::ordered_json* at = &root;
  size_t begin = 0;
  for (size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', begin)) {
    at = &(*at)[key.substr(begin, dot - begin)];
    begin = dot + 1;
  }
  return (*at)[key.substr(begin)];
}

}  // namespace

std::string json_text(const ForeignJob& job) {
  nlohmann::ordered_json root = nlohmann::ordered_json::object();
  for (const ForeignSetting& setting : job.settings()) {
    member(root, setting.key) = parse_ordered_json(literal_text(setting.value));
  }
  return json_text(root, 2) + "\n";
}

std::string yaml_text(const ForeignJob& job) {
  std::string text;
  std::vector<std::string> open;  // sections of the line before
  for (const ForeignSetting& setting : job.settings()) {
    std::vector<std::string> sections;
    std::string rest = setting.key;
    for (size_t dot = rest.find('.'); dot != std::string::npos; dot = rest.find('.')) {
      sections.push_back(rest.substr(0, dot));
      rest = rest.substr(dot + 1);
    }
    size_t level = 0;
    while (level < open.size() && level < sections.size() && open[level] == sections[level]) {
      ++level;
    }
    for (; level < sections.size(); ++level) {
      text += fmt::format("{:{}}{}:\n", "", 2 * level, sections[level]);
    }
    text += fmt::format("{:{}}{}: {}\n", "", 2 * level, rest, literal_text(setting.value));
    open = sections;
  }
  return text;
}

std::string toml_text(const ForeignJob& job) {
  std::string text, open;
  for (const ForeignSetting& setting : job.settings()) {
    const auto [section, name] = split_key(setting.key);
    if (section != open) text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section);
    open = section;
    text += fmt::format("{} = {}\n", name, literal_text(setting.value));
  }
  return text;
}

std::string argument_lines(const ForeignJob& job) {
  std::string text;
  for (const ForeignSetting& setting : job.settings()) {
    if (!setting.key.starts_with("--")) continue;
    const bool is_flag = std::holds_alternative<bool>(setting.value);
    std::string value = is_flag ? "" : word_text(setting.value);
    // Words between spaces are arguments of their own.
    const bool is_plain = value.find_first_of("|*$'\"()[]") == std::string::npos;
    if (!is_plain) value = "'" + value + "'";
    text += fmt::format("  {}{}{}\n", setting.key, is_flag ? "" : " ", value);
  }
  return text;
}

bool has_pp_outermost(const ParallelConfig& parallel) {
  const Mesh ours = mesh_of(parallel);
  Mesh theirs = ours;
  theirs.order = {MeshAxis::Tp, MeshAxis::Cp, MeshAxis::Dp, MeshAxis::Pp};
  return are_numbered_alike(ours, theirs);
}

Nodes nodes_of(int64_t ranks) {
  int64_t of_node = std::min(ranks, kUsualNode);
  while (ranks % of_node != 0) --of_node;
  return {ranks / of_node, of_node};
}

std::string with_ending(const std::string& path, const std::string& ending) {
  return std::filesystem::path(path.empty() ? "exported" : path).replace_extension(ending).string();
}

std::string ending_of(const std::string& path) {
  return std::filesystem::path(path).extension().string();
}

}  // namespace trireme
