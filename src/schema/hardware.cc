#include "schema/hardware.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "schema/mixed_cluster.h"

namespace trireme {
namespace {

// The bounds of a field: above zero or at least `least`, and its largest value.
struct Bound {
  std::string_view key;
  bool may_be_least;
  double most;
  double least = 0.0;
};
constexpr double kNoLimit = 1e30;
constexpr Bound kBounds[] = {{"device.threads", false, 1e6},
                             {"device.fp32_flops", false, kNoLimit},
                             {"device.bf16_flops", false, kNoLimit},
                             {"device.memory_bytes_per_s", false, kNoLimit},
                             {"device.memory_bytes", true, kNoLimit},
                             {"device.multiprocessors", true, 1e6},
                             {"device.reduce_bytes_per_s", true, kNoLimit},
                             {"device.offload_bytes_per_s", true, kNoLimit},
                             {"device.offload_write_bytes_per_s", true, kNoLimit},
                             {"device.offload_share", true, 0.9},
                             {"device.fp16_flops", false, kNoLimit},
                             {"device.matmul_share", false, 1.0},
                             {"device.matmul_depth", true, 1e6},
                             {"device.sustained_flops", true, kNoLimit},
                             {"device.matmul_bytes_per_s", true, kNoLimit},
                             {"device.attention_share", false, 1.0},
                             {"device.attention_backward_share", true, 1.0},
                             {"device.memory_share", false, 1.0},
                             {"device.vector_share", true, 8.0},
                             {"device.attention_tile", true, 1e6},
                             {"device.launch_s", true, 1.0},
                             {"device.collective_s", true, 1.0},
                             {"device.background_s", true, 1.0},
                             {"device.overlap_share", true, 0.9},
                             {"device.core_s_per_byte", true, 1.0},
                             {"device.step_s", true, 1e6},
                             {"device.watts", true, 1e6},
                             {"device.mtbf_hours", true, kNoLimit},
                             {"device.restart_s", true, 1e6},
                             {"devices.first_rank", true, 1e9},
                             {"devices.ranks", true, 1e9},
                             {"devices.ranks_per_node", true, 1e9},
                             {"tiers.ranks", true, 1e9},
                             {"tiers.latency_s", true, kNoLimit},
                             {"tiers.bytes_per_s", true, kNoLimit},
                             {"tiers.oversubscription", true, 1e6, 1.0},
                             {"tiers.adapters", true, 1e9},
                             {"tiers.switch_share", false, 1.0}};

double number_of(const FieldValue& value) {
  if (const auto* number = std::get_if<double*>(&value)) return **number;
  if (const auto* number = std::get_if<int64_t*>(&value)) return double(**number);
  if (const auto* number = std::get_if<int*>(&value)) return double(**number);
  return 0.0;
}

// Says why a field's value cannot be used, or nothing.
std::string problem_of(const ConfigField& field, const std::string& prefix) {
  for (const Bound& bound : kBounds) {
    const bool is_other = field.section == "devices" && bound.key.starts_with("device.") &&
                          bound.key.substr(7) == field.name;
    if (field.key() != bound.key && !is_other) continue;
    const double value = number_of(field.value);
    const bool low = bound.may_be_least ? value < bound.least : value <= 0.0;
    if (std::isfinite(value) && !low && value <= bound.most) return "";
    return fmt::format("{}{} = {} must be {}{} ({})", prefix, field.name, toml_text(field),
                       bound.may_be_least ? fmt::format("at least {}", bound.least) : "above 0",
                       bound.most < kNoLimit ? fmt::format(" and at most {}", bound.most) : "",
                       field.doc);
  }
  return "";
}

// The numbers on which the kernels, the memory and the power of one rank depend. The others belong
// to what ranks do together.
constexpr std::string_view kOwnOfDevice[] = {"name",
                                             "fp32_flops",
                                             "bf16_flops",
                                             "fp16_flops",
                                             "memory_bytes_per_s",
                                             "memory_bytes",
                                             "multiprocessors",
                                             "matmul_share",
                                             "matmul_depth",
                                             "sustained_flops",
                                             "matmul_bytes_per_s",
                                             "memory_share",
                                             "attention_share",
                                             "attention_backward_share",
                                             "vector_share",
                                             "attention_tile",
                                             "launch_s",
                                             "watts"};

// Says which properties of a tier exclude each other.
void check_kind(const LinkTier& tier, std::vector<std::string>& problems) {
  if (tier.is_ring && tier.is_torus) {
    problems.push_back(
        fmt::format("tiers.{}.is_ring = true beside is_torus: keep is_torus if the tiers are the "
                    "axes of one torus, and is_ring if this tier alone is a ring",
                    tier.name));
  }
  if (tier.sums_in_switch && !tier.has_switch()) {
    problems.push_back(
        fmt::format("tiers.{}.sums_in_switch = true, but the tier is a ring or a torus and has no "
                    "switch: remove one of the two lines",
                    tier.name));
  }
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
  add("fp16_flops", &hardware.fp16_flops, "the same in fp16; absent: bf16's");
  add("memory_bytes_per_s", &hardware.memory_bytes_per_s, "read plus written by a copy");
  add("memory_bytes", &hardware.memory_bytes, "of a rank; 0: unknown, nothing is refused");
  add("multiprocessors", &hardware.multiprocessors,
      "that take the tiles of a product; 0: no tiles");
  add("attention_tile", &hardware.attention_tile,
      "whole tiles of so many queries and keys in fp32; 0: any number, in the dtype of the run");
  add("reduce_bytes_per_s", &hardware.reduce_bytes_per_s, "adding one vector to another");
  add("offload_bytes_per_s", &hardware.offload_bytes_per_s,
      "read or written by memory.offload; 0: unknown, it takes no time");
  add("offload_write_bytes_per_s", &hardware.offload_write_bytes_per_s,
      "written by memory.offload; 0: as fast as read");
  add("offload_share", &hardware.offload_share,
      "of their speed, that compute and memory.offload lose beside each other");
  add("matmul_share", &hardware.matmul_share, "of the peak that matmuls reach");
  add("matmul_depth", &hardware.matmul_depth, "a product of depth k takes the time of k + this");
  add("sustained_flops", &hardware.sustained_flops,
      "of products in 16 bits under the power limit; 0: it does not bind");
  add("matmul_bytes_per_s", &hardware.matmul_bytes_per_s,
      "moved by a product beside its FLOPs; 0: while it computes");
  add("attention_share", &hardware.attention_share, "of the peak that attention reaches");
  add("attention_backward_share", &hardware.attention_backward_share,
      "of the peak that its backward pass reaches; 0: attention_share");
  add("memory_share", &hardware.memory_share, "of memory_bytes_per_s that other kernels reach");
  add("vector_share", &hardware.vector_share,
      "of fp32_flops that these kernels reach; 0: they only move bytes");
  add("launch_s", &hardware.launch_s, "in which a kernel is launched");
  add("collective_s", &hardware.collective_s, "time of a collective beside its messages");
  add("background_s", &hardware.background_s,
      "more of a transfer that another thread makes on the same core");
  add("overlap_share", &hardware.overlap_share, "of compute, that a collective beside it takes");
  add("core_s_per_byte", &hardware.core_s_per_byte,
      "of the core, which a byte that is sent and one that is received beside compute take");
  add("step_s", &hardware.step_s, "time of a step that no kernel accounts for");
  add("watts", &hardware.watts, "power of a device at work; 0: unknown");
  add("mtbf_hours", &hardware.mtbf_hours,
      "of a device, between failures that stop a run; 0: unknown");
  add("restart_s", &hardware.restart_s, "from a failure to the next step");
  return fields;
}

std::vector<ConfigField> tier_fields(LinkTier& tier) {
  std::vector<ConfigField> fields;
  const auto add = [&](std::string_view name, FieldValue value, std::string_view doc) {
    fields.push_back({"tiers", name, doc, FieldEffect::Speed, {}, value});
  };
  add("ranks", &tier.ranks, "neighbouring ranks that the tier joins");
  add("latency_s", &tier.link.latency_s, "seconds before the first byte of a message");
  add("bytes_per_s", &tier.link.bytes_per_s, "of one rank, one way; 0: unknown");
  add("oversubscription", &tier.oversubscription,
      "links of the ranks / links of the tier; 1: it carries them all");
  add("adapters", &tier.adapters,
      "links of each part that is joined, shared by its ranks; 0: one for each rank");
  add("is_ring", &tier.is_ring, "neighbours are joined in one ring, without a switch");
  add("is_torus", &tier.is_torus, "the same, as one of the axes of a torus");
  add("sums_in_switch", &tier.sums_in_switch, "the switch adds what the ranks send");
  add("switch_share", &tier.switch_share, "of the bandwidth that these sums reach");
  return fields;
}

std::vector<ConfigField> device_fields(OtherDevice& other) {
  std::vector<ConfigField> fields = {{"devices",
                                      "first_rank",
                                      "first rank that has the device",
                                      FieldEffect::Speed,
                                      {},
                                      &other.first_rank},
                                     {"devices",
                                      "ranks",
                                      "ranks that have it; 0: all behind the first",
                                      FieldEffect::Speed,
                                      {},
                                      &other.ranks},
                                     {"devices",
                                      "ranks_per_node",
                                      "ranks of a node of this kind",
                                      FieldEffect::Speed,
                                      {},
                                      &other.ranks_per_node}};
  for (ConfigField& field : hardware_fields(other.device)) {
    const auto* end = std::end(kOwnOfDevice);
    if (std::find(std::begin(kOwnOfDevice), end, field.name) == end) continue;
    field.section = "devices";
    fields.push_back(field);
  }
  return fields;
}

std::string to_toml(const Hardware& hardware) {
  Hardware copy = hardware;
  std::string text = "[device]\n";
  for (const ConfigField& field : hardware_fields(copy)) {
    text += fmt::format("{} = {}\n", field.name, toml_text(field));
  }
  for (OtherDevice& other : copy.others) {
    text += fmt::format("\n[devices.{}]\n", other.label);
    for (const ConfigField& field : device_fields(other)) {
      const bool is_left_out = field.name == "ranks_per_node" && other.ranks_per_node == 0;
      if (is_left_out) continue;
      text += fmt::format("{} = {}\n", field.name, toml_text(field));
    }
  }
  for (LinkTier& tier : copy.tiers) {
    text += fmt::format("\n[tiers.{}]\n", tier.name);
    for (const ConfigField& field : tier_fields(tier)) {
      text += fmt::format("{} = {}\n", field.name, toml_text(field));
    }
  }
  return text;
}

std::vector<std::string> validate(const Hardware& hardware) {
  Hardware copy = hardware;
  std::vector<std::string> problems;
  const auto check = [&](const std::vector<ConfigField>& fields, const std::string& prefix) {
    for (const ConfigField& field : fields) {
      const std::string problem = problem_of(field, prefix);
      if (!problem.empty()) problems.push_back(problem);
    }
  };
  check(hardware_fields(copy), "device.");
  for (OtherDevice& other : copy.others) {
    check(device_fields(other), fmt::format("devices.{}.", other.label));
  }
  check_device_ranks(hardware, problems);
  for (const LinkTier& tier : hardware.tiers) check_kind(tier, problems);
  for (size_t i = 0; i < copy.tiers.size(); ++i) {
    LinkTier& tier = copy.tiers[i];
    check(tier_fields(tier), fmt::format("tiers.{}.", tier.name));
    const bool is_last = i + 1 == copy.tiers.size();
    if (tier.ranks == 0 && !is_last) {
      problems.push_back(
          fmt::format("tiers.{}.ranks is missing: only the outermost tier may leave "
                      "it out, and then joins all ranks",
                      tier.name));
    }
    if (i == 0 || tier.ranks <= 0) continue;
    const LinkTier& inner = copy.tiers[i - 1];
    if (inner.ranks > 0 && tier.ranks > inner.ranks && tier.ranks % inner.ranks == 0) continue;
    problems.push_back(fmt::format(
        "tiers.{}.ranks = {} must be a multiple of tiers.{}.ranks = {}, whose groups it joins: "
        "change one of them",
        tier.name, tier.ranks, inner.name, inner.ranks));
  }
  return problems;
}

void Hardware::set_nodes(int64_t ranks, LinkSpec inside, LinkSpec between) {
  tiers = {{.name = "node", .ranks = ranks, .link = inside}};
  if (between.bytes_per_s <= 0.0 && between.latency_s <= 0.0) return;
  tiers.push_back({.name = "cluster", .ranks = 0, .link = between});
}

double Hardware::peak_flops(DType compute) const {
  switch (compute) {
    case DType::BF16:
      return bf16_flops;
    case DType::F16:
      return fp16_flops;
    default:
      return fp32_flops;
  }
}

double Hardware::product_flops(DType compute) const {
  const double at_full_clock = peak_flops(compute) * matmul_share;
  const bool is_limited = sustained_flops > 0.0 && size_of(compute) == 2;
  return is_limited ? std::min(at_full_clock, sustained_flops) : at_full_clock;
}

}  // namespace trireme
