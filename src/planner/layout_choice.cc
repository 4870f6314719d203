#include "planner/layout_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>

#include "base/units.h"
#include "planner/alternatives.h"
#include "program/make_schedule.h"
#include "schema/run_config_fields.h"

namespace trireme {
namespace {

template <typename Number>
std::vector<Number> divisors_of(Number number) {
  std::vector<Number> divisors;
  for (Number d = 1; d <= number; ++d) {
    if (number % d == 0) divisors.push_back(d);
  }
  return divisors;
}

struct ScheduleChoice {
  ScheduleKind kind = ScheduleKind::OneFOneB;
  int chunks = 0;
};

std::vector<ScheduleChoice> schedules_of(int pp, int64_t layers) {
  if (pp == 1) return {{ScheduleKind::OneFOneB, 0}};
  std::vector<ScheduleChoice> all;
  for (const ScheduleKind kind : kNamedSchedules) {
    if (traits_of(kind).chunks != ChunkRule::Any) {
      all.push_back({kind, 0});
      continue;
    }
    for (int chunks = 2; int64_t(chunks) * pp <= layers; ++chunks) all.push_back({kind, chunks});
  }
  return all;
}

}  // namespace

void set_exchange(ParallelConfig& parallel, const LayerExchange& exchange) {
  parallel.sequence = exchange.sequence;
  parallel.tp_overlap = exchange.tp_overlap;
  parallel.context = exchange.context;
}

LayoutTransfers transfers_of(const RunConfig& config) {
  return {config.memory.offload, config.parallel.bucket_bytes, config.parallel.prefetch};
}

RunConfig with_layout(RunConfig config, const LayoutChoice& layout) {
  config.parallel.tp = layout.mesh.tp;
  config.parallel.cp = layout.mesh.cp;
  config.parallel.pp = layout.mesh.pp;
  config.parallel.dp = layout.mesh.dp;
  config.parallel.ep = layout.mesh.ep;
  config.parallel.stage_tp.clear();
  config.parallel.stage_dp.clear();
  config.parallel.stage_layers.clear();
  config.parallel.zero = layout.zero;
  config.parallel.schedule = layout.schedule;
  config.parallel.chunks = layout.chunks;
  config.batch.micro_sequences = layout.micro_sequences;
  config.memory.recompute = layout.recompute;
  set_exchange(config.parallel, layout.exchange);
  config.parallel.hsdp_shard = layout.hsdp_shard;
  config.parallel.order = to_string(layout.mesh.order);
  if (!layout.transfers) return config;
  config.memory.offload = layout.transfers->offload;
  config.parallel.bucket_bytes = layout.transfers->bucket_bytes;
  config.parallel.prefetch = layout.transfers->prefetch;
  return config;
}

std::string describe(const LayoutChoice& layout) {
  const Mesh& mesh = layout.mesh;
  std::string text;
  const auto add = [&](std::string part) { text += (text.empty() ? "" : ", ") + part; };
  for (const auto& [name, degree] : {std::pair{"tp", mesh.tp},
                                     {"cp", mesh.cp},
                                     {"pp", mesh.pp},
                                     {"dp", mesh.dp},
                                     {"ep", mesh.ep}}) {
    if (degree > 1) add(fmt::format("{} {}", name, degree));
  }
  if (mesh.order != kUsualOrder) add("order " + to_string(mesh.order));
  if (layout.exchange.sequence) add("sequence");
  if (layout.exchange.tp_overlap) add("tp_overlap");
  if (layout.exchange.context != ContextExchange::Ring) {
    add(fmt::format("context {}", name_of(layout.exchange.context)));
  }
  if (layout.zero > 0) add(fmt::format("ZeRO {}", layout.zero));
  if (layout.hsdp_shard > 0) add(fmt::format("hsdp_shard {}", layout.hsdp_shard));
  if (mesh.pp > 1) {
    const std::string_view schedule = name_of(layout.schedule);
    add(layout.chunks > 0 ? fmt::format("{} x {}", schedule, layout.chunks)
                          : std::string(schedule));
  }
  add(fmt::format("micro {}", layout.micro_sequences));
  if (layout.recompute != Recompute::None) {
    add(fmt::format("recompute {}", name_of(layout.recompute)));
  }
  const LayoutTransfers transfers = layout.transfers.value_or(LayoutTransfers{});
  if (transfers.offload != OffloadChoice::None) {
    add(fmt::format("offload {}", name_of(transfers.offload)));
  }
  if (transfers.bucket_bytes > 0) add("buckets of " + format_bytes(transfers.bucket_bytes));
  if (transfers.prefetch != LayoutTransfers{}.prefetch) {
    add(fmt::format("prefetch {}", transfers.prefetch));
  }
  return text;
}

std::string set_options(const RunConfig& before, const RunConfig& after) {
  const std::vector<ConfigField> old_fields = config_fields(before);
  const std::vector<ConfigField> fields = config_fields(after);
  std::string text;
  for (size_t i = 0; i < fields.size(); ++i) {
    std::string value = toml_text(fields[i]);
    if (value == toml_text(old_fields[i])) continue;
    std::erase(value, '"');  // the values of these fields need no quotes on a command line
    text += fmt::format("{}--set {}={}", text.empty() ? "" : " ", fields[i].key(), value);
  }
  return text;
}

std::string set_options(const LayoutChoice& layout, int64_t global_sequences,
                        const RunConfig& config) {
  RunConfig chosen = with_layout(config, layout);
  if (config.batch.global_tokens == 0) chosen.batch.global_sequences = global_sequences;
  return set_options(config, chosen);
}

std::vector<Mesh> meshes_of(int num_ranks, const ModelSpec& model) {
  std::vector<Mesh> meshes;
  for (const int tp : divisors_of(num_ranks)) {
    for (const int cp : divisors_of(num_ranks / tp)) {
      for (const int pp : divisors_of(num_ranks / tp / cp)) {
        const int dp = num_ranks / tp / cp / pp;
        for (const int ep : divisors_of(model.has_experts() ? dp * cp : 1)) {
          meshes.push_back({tp, cp, pp, dp, ep});
        }
      }
    }
  }
  return meshes;
}

std::vector<Recompute> recomputes_of(Recompute configured) {
  if (configured == Recompute::Fit) return {Recompute::Fit};
  return {std::begin(kRecomputes), std::end(kRecomputes)};
}

std::vector<LayerExchange> exchanges_of(const Mesh& mesh) {
  std::vector<LayerExchange> all;
  for (const bool sequence : {false, true}) {
    for (const bool overlap : {false, true}) {
      if ((sequence || overlap) && mesh.tp == 1) continue;
      for (const ContextExchange context : {ContextExchange::Ring, ContextExchange::AllToAll}) {
        if (context != ContextExchange::Ring && mesh.cp == 1) continue;
        all.push_back({sequence, overlap, context});
      }
    }
  }
  return all;
}

std::vector<MeshOrder> orders_of(Mesh mesh, const std::vector<MeshOrder>& orders,
                                 int ranks_per_node) {
  std::vector<MeshOrder> differing;
  for (const MeshOrder& order : orders) {
    mesh.order = order;
    const bool is_known = std::any_of(differing.begin(), differing.end(), [&](MeshOrder other) {
      Mesh alike = mesh;
      alike.order = other;
      return are_numbered_alike(mesh, alike);
    });
    if (!is_known) differing.push_back(order);
    if (mesh.size() <= ranks_per_node) break;
  }
  return differing;
}

std::vector<int> shards_of(Mesh mesh, const std::vector<MeshOrder>& orders, int zero,
                           int ranks_per_node) {
  std::vector<int> shards = {0};
  for (const MeshOrder& order : orders) {
    mesh.order = order;
    const int near = std::gcd(mesh.dp, ranks_per_node / stride_of(mesh, MeshAxis::Dp));
    const bool is_apart = zero > 0 && mesh.dp > near && near > 1;
    const bool is_known = std::find(shards.begin(), shards.end(), near) != shards.end();
    if (is_apart && !is_known) shards.push_back(near);
  }
  return shards;
}

std::vector<LayoutChoice> layouts_of(const Mesh& mesh, const std::vector<MeshOrder>& orders,
                                     const ModelSpec& model, int64_t global_sequences,
                                     const std::vector<Recompute>& recomputes, int ranks_per_node) {
  std::vector<LayoutChoice> all;
  if (global_sequences % mesh.dp != 0) return all;
  const std::vector<int64_t> micros = divisors_of(global_sequences / mesh.dp);
  const auto add_all = [&](int zero, int shard) {
    for (const ScheduleChoice& schedule : schedules_of(mesh.pp, model.layers)) {
      for (const int64_t micro : micros) {
        for (const Recompute recompute : recomputes) {
          all.push_back({mesh, zero, schedule.kind, schedule.chunks, micro, recompute, {}, shard});
        }
      }
    }
  };
  for (int zero = 0; zero <= (mesh.dp > 1 ? 3 : 0); ++zero) {
    for (const int shard : shards_of(mesh, orders, zero, ranks_per_node)) add_all(zero, shard);
  }
  return all;
}

}  // namespace trireme
