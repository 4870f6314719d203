#include "schema/hardware.h"

#include <fmt/format.h>

#include <cmath>

namespace trireme {
namespace {

// The bounds of a field: above zero or at least zero, and its largest value.
struct Bound {
  std::string_view key;
  bool may_be_zero;
  double most;
};
constexpr double kNoLimit = 1e30;
constexpr Bound kBounds[] = {{"device.threads", false, 1e6},
                             {"device.fp32_flops", false, kNoLimit},
                             {"device.bf16_flops", false, kNoLimit},
                             {"device.memory_bytes_per_s", false, kNoLimit},
                             {"device.memory_bytes", true, kNoLimit},
                             {"device.reduce_bytes_per_s", true, kNoLimit},
                             {"device.matmul_share", false, 1.0},
                             {"device.attention_share", false, 1.0},
                             {"node.ranks", false, 1e6},
                             {"inside_node.latency_s", true, kNoLimit},
                             {"inside_node.bytes_per_s", true, kNoLimit},
                             {"between_nodes.latency_s", true, kNoLimit},
                             {"between_nodes.bytes_per_s", true, kNoLimit}};

double number_of(const FieldValue& value) {
  if (const auto* number = std::get_if<double*>(&value)) return **number;
  if (const auto* number = std::get_if<int64_t*>(&value)) return double(**number);
  if (const auto* number = std::get_if<int*>(&value)) return double(**number);
  return 0.0;
}

}  // namespace

std::vector<ConfigField> hardware_fields(Hardware& hardware) {
  std::vector<ConfigField> fields;
  std::string_view section;
  const auto add = [&](std::string_view name, FieldValue value, std::string_view doc) {
    fields.push_back({section, name, doc, FieldEffect::Speed, {}, value});
  };
  section = "device";
  add("name", &hardware.name, "what plans call it");
  add("threads", &hardware.threads, "threads of a rank");
  add("fp32_flops", &hardware.fp32_flops, "fp32 FLOPs per second of a rank at its peak");
  add("bf16_flops", &hardware.bf16_flops, "the same in bf16; absent: fp32's");
  add("memory_bytes_per_s", &hardware.memory_bytes_per_s, "read plus written by a copy");
  add("memory_bytes", &hardware.memory_bytes, "of a rank; 0: unknown, nothing is refused");
  add("reduce_bytes_per_s", &hardware.reduce_bytes_per_s, "adding one vector to another");
  add("matmul_share", &hardware.matmul_share, "of the peak that matmuls reach");
  add("attention_share", &hardware.attention_share, "of the peak that attention reaches");
  section = "node";
  add("ranks", &hardware.ranks_per_node, "ranks of one node");
  section = "inside_node";
  add("latency_s", &hardware.inside_node.latency_s, "seconds before the first byte of a message");
  add("bytes_per_s", &hardware.inside_node.bytes_per_s, "one way; 0: unknown");
  section = "between_nodes";
  add("latency_s", &hardware.between_nodes.latency_s, "seconds before the first byte of a message");
  add("bytes_per_s", &hardware.between_nodes.bytes_per_s, "one way; 0: unknown");
  return fields;
}

std::string to_toml(const Hardware& hardware) {
  Hardware copy = hardware;
  std::string text;
  std::string_view section;
  for (const ConfigField& field : hardware_fields(copy)) {
    if (field.section != section) {
      text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", field.section);
      section = field.section;
    }
    text += fmt::format("{} = {}\n", field.name, toml_text(field));
  }
  return text;
}

std::vector<std::string> validate(const Hardware& hardware) {
  Hardware copy = hardware;
  std::vector<std::string> problems;
  for (const ConfigField& field : hardware_fields(copy)) {
    for (const Bound& bound : kBounds) {
      if (field.key() != bound.key) continue;
      const double value = number_of(field.value);
      const bool low = bound.may_be_zero ? value < 0.0 : value <= 0.0;
      if (std::isfinite(value) && !low && value <= bound.most) continue;
      problems.push_back(fmt::format(
          "{} = {} must be {}{} ({})", field.key(), toml_text(field),
          bound.may_be_zero ? "at least 0" : "above 0",
          bound.most < kNoLimit ? fmt::format(" and at most {}", bound.most) : "", field.doc));
    }
  }
  return problems;
}

}  // namespace trireme
