#include "schema/lora_targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/nearest_name.h"
#include "base/or_list.h"

namespace trireme {
namespace {

// Our names of matrices inside their block. A name that ends with another one stands before it.
struct NamedMatrix {
  std::string_view name;
  LoraTarget target;
};
constexpr NamedMatrix kMatrices[] = {
    {"wq", LoraTarget::Q},         {"shared.wk", LoraTarget::KvA}, {"wk", LoraTarget::K},
    {"wv", LoraTarget::V},         {"wq_down", LoraTarget::QA},    {"wq_up", LoraTarget::QB},
    {"wkv_down", LoraTarget::KvA}, {"wk_up", LoraTarget::KvB},     {"wv_up", LoraTarget::KvB},
    {"wo", LoraTarget::O},         {"w_gate", LoraTarget::Gate},   {"w_up", LoraTarget::Up},
    {"w_down", LoraTarget::Down}};

std::string_view without_spaces(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

Error unknown_target(std::string_view name) {
  if (name == "all") return {ErrorKind::Usage, "names \"all\" beside others: write \"all\" alone"};
  std::vector<std::string> names = {"all"};
  for (const LoraTarget target : kLoraTargets) names.emplace_back(name_of(target));
  const std::string nearest = nearest_name(name, names);
  return {ErrorKind::Usage,
          fmt::format("names \"{}\", which is no matrix of a layer; {}the names are {}", name,
                      nearest.empty() ? "" : "did you mean \"" + nearest + "\"? ", or_list(names))};
}

}  // namespace

std::string_view name_of(LoraTarget target) {
  constexpr std::string_view kNames[] = {"q",    "k", "v",    "q_a", "q_b", "kv_a",
                                         "kv_b", "o", "gate", "up",  "down"};
  return kNames[int(target)];
}

std::optional<LoraTarget> lora_target_of(std::string_view weight) {
  for (const NamedMatrix& matrix : kMatrices) {
    const bool ends = weight.ends_with(matrix.name);
    const size_t begin = ends ? weight.size() - matrix.name.size() : 0;
    if (ends && (begin == 0 || weight[begin - 1] == '.')) return matrix.target;
  }
  return std::nullopt;
}

Result<LoraTargets> parse_lora_targets(std::string_view names) {
  LoraTargets targets;
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    const std::string_view name = without_spaces(names.substr(begin, end - begin));
    bool is_known = false;
    for (const LoraTarget target : kLoraTargets) {
      if (name != name_of(target)) continue;
      targets.add(target);
      is_known = true;
    }
    if (!is_known) return unknown_target(name);
    begin = end + 1;
  }
  return targets;
}

std::string to_string(const LoraTargets& targets) {
  std::string text;
  for (const LoraTarget target : kLoraTargets) {
    if (targets.contains(target))
      text += fmt::format("{}{}", text.empty() ? "" : ",", name_of(target));
  }
  return text;
}

}  // namespace trireme
