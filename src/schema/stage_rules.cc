#include "schema/stage_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "schema/mesh.h"
#include "schema/mesh_order.h"
#include "schema/schedule_shape.h"
#include "schema/stage_counts.h"

namespace trireme {
namespace {

constexpr std::string_view kStageTp = "parallel.stage_tp";
constexpr std::string_view kStageDp = "parallel.stage_dp";
constexpr std::string_view kStageLayers = "parallel.stage_layers";

// The numbers of a key, or none if it is empty or was reported.
std::vector<int> counts_of(ConfigRules& rules, std::string_view key, const std::string& text,
                           int least = 1) {
  const Result<std::vector<int>> counts = parse_stage_counts(text, least);
  if (counts.ok()) return *counts;
  rules.require(false, key, counts.error().message,
                "write numbers between commas, such as \"2,1\"");
  return {};
}

bool sums_along_tree(const RunConfig& config) {
  return config.run.reproducible == Reproducible::Layout ||
         config.run.reproducible == Reproducible::Mesh;
}

// A rank with several lanes sums their micro-batches itself, which must be a node of the tree.
bool keeps_tree(const RunConfig& config, int ranks) {
  return !sums_along_tree(config) || ranks == 1 || config.parallel.zero >= 2 ||
         std::has_single_bit(uint64_t(config.parallel.dp / ranks));
}

// What one of the keys that state degrees of places must say. Returns its numbers, or none if it
// has none or a problem was reported.
std::vector<int> place_counts(ConfigRules& rules, const ParallelConfig& parallel,
                              std::string_view key, const std::string& text, int degree,
                              std::string_view divided) {
  const std::vector<int> counts = counts_of(rules, key, text);
  if (counts.empty() || parallel.pp < 1 || degree < 1) return {};
  if (int(counts.size()) != parallel.pp) {
    rules.require(false, key,
                  fmt::format("has {} numbers for the parallel.pp = {} places of the pipeline",
                              counts.size(), parallel.pp),
                  fmt::format("write one for each, or set parallel.pp = {}", counts.size()));
    return {};
  }
  int64_t common = 1;
  for (const int ranks : counts) common = std::min(std::lcm(common, ranks), int64_t{1} << 30);
  for (const int ranks : counts) {
    if (degree % ranks == 0) continue;
    const std::string_view axis = key.substr(key.rfind('_') + 1);
    rules.require(false, key,
                  fmt::format("has {}, which does not divide the parallel.{} = {} {}", ranks, axis,
                              degree, divided),
                  fmt::format("take divisors of it, or set parallel.{} = {}", axis, common));
    return {};
  }
  return counts;
}

void tree_rules(ConfigRules& rules, const RunConfig& config, const std::vector<int>& stage_dp) {
  for (const int ranks : stage_dp) {
    if (keeps_tree(config, ranks)) continue;
    return rules.require(
        false, kStageDp,
        fmt::format("gives each of {} ranks {} of the parallel.dp parts of the batch, and "
                    "run.reproducible = \"{}\" sums along a binary tree",
                    ranks, config.parallel.dp / ranks, name_of(config.run.reproducible)),
        "take numbers of ranks that leave each a power of two, or run.reproducible = \"fixed\"");
  }
}

using Places = std::vector<PlaceDegrees>;  // [pp] valid degrees

// Dualpipe holds every stage at two places, which compute the same two stages for half of the
// micro-batches each. So one with more ranks would only wait for the other one, and their ranks can
// add gradients in pairs.
void dualpipe_rules(ConfigRules& rules, const RunConfig& config, const Places& places) {
  const ParallelConfig& parallel = config.parallel;
  if (parallel.schedule != ScheduleKind::Dualpipe) return;
  for (size_t place = 0; place < places.size() / 2; ++place) {
    const size_t mirror = places.size() - 1 - place;
    const auto [tp, dp] = places[place];
    const auto [other_tp, other_dp] = places[mirror];
    const bool differ_in_tp = tp != other_tp;
    if (!differ_in_tp && dp == other_dp) continue;
    return rules.require(
        false, differ_in_tp ? kStageTp : kStageDp,
        fmt::format("gives places {} and {} of the pipeline {} and {} ranks, and "
                    "parallel.schedule = \"dualpipe\" gives both the same work: each computes the "
                    "same two stages for half of the micro-batches",
                    place, mirror, differ_in_tp ? tp : dp, differ_in_tp ? other_tp : other_dp),
        "give both equally many, or set parallel.schedule = \"dualpipev\"");
  }
  const bool has_lanes = std::any_of(places.begin(), places.end(), [&](const PlaceDegrees& place) {
    return place.dp < parallel.dp;
  });
  rules.require(
      !has_lanes || !sums_along_tree(config) || std::has_single_bit(uint64_t(parallel.dp)),
      kStageDp,
      fmt::format("gives a rank several of the parallel.dp = {} parts of the batch, whose "
                  "directions (parallel.schedule = \"dualpipe\") are no nodes of the tree "
                  "along which run.reproducible = \"{}\" sums",
                  parallel.dp, name_of(config.run.reproducible)),
      "take a power of two as parallel.dp, parallel.schedule = \"dualpipev\", or "
      "run.reproducible = \"fixed\"");
}

// The groups that ranks along dp form at every place.
void group_rules(ConfigRules& rules, const ParallelConfig& parallel, const Places& places) {
  for (size_t place = 0; place < places.size(); ++place) {
    const int ranks = places[place].dp, shard = std::min(parallel.hsdp_shard, ranks);
    if (ranks == parallel.dp) continue;
    if (shard > 0 && ranks % shard != 0) {
      return rules.require(
          false, kStageDp,
          fmt::format("gives place {} of the pipeline dp = {}, which does not split into groups of "
                      "parallel.hsdp_shard = {}",
                      place, ranks, shard),
          fmt::format("take a multiple of {0} or at most {0} ranks, or set parallel.hsdp_shard = 0",
                      shard));
    }
    if (parallel.ep < 1 || parallel.cp < 1) continue;
    if (int64_t{ranks} * parallel.cp % parallel.ep == 0) continue;
    return rules.require(
        false, kStageDp,
        fmt::format("gives place {} of the pipeline dp = {}, and parallel.ep = {} does not divide "
                    "its {} ranks of dp and cp",
                    place, ranks, parallel.ep, int64_t{ranks} * parallel.cp),
        fmt::format("take a multiple of {}, or a smaller parallel.ep",
                    parallel.ep / std::gcd(parallel.ep, parallel.cp)));
  }
}

// What places with degrees of their own exclude.
void uneven_rules(ConfigRules& rules, const RunConfig& config, std::string_view key) {
  const ParallelConfig& parallel = config.parallel;
  const auto need = [&](bool holds, std::string rule, std::string remedy) {
    rules.require(holds, key, std::move(rule), std::move(remedy));
  };
  const Result<MeshOrder> order = parse_mesh_order(parallel.order);
  need(!order.ok() || order->back() == MeshAxis::Pp,
       "numbers the ranks place by place, so pp is the last axis of parallel.order",
       "set parallel.order = \"tp,cp,dp,pp\"");
  need(parallel.staleness <= 0, "shares out a model that every worker has whole",
       "set parallel.staleness = 0, or leave it out");
  need(config.run.replay_elsewhere_every == 0,
       "leaves some ranks without another one that can compute the same gradients",
       "set run.replay_elsewhere_every = 0");
}

// What places with tensor parallel degrees of their own exclude.
void uneven_tp_rules(ConfigRules& rules, const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  rules.require(!reads_images(config.model.family), kStageTp,
                "does not go with nets of images, whose tp ranks share out images or units",
                "leave it out");
  const int64_t tokens = config.batch.micro_sequences * config.model.seq_len;
  const bool is_possible = tokens > 0 && parallel.cp > 0;
  rules.require(!parallel.sequence || !is_possible || tokens % (parallel.cp * parallel.tp) == 0,
                kStageTp,
                fmt::format("with parallel.sequence needs parts of equal size: the {} tokens of a "
                            "micro-batch do not split into parallel.cp * tp = {} of them",
                            tokens, parallel.cp * parallel.tp),
                "choose model.seq_len as a multiple of it, or set parallel.sequence = false");
}

void place_rules(ConfigRules& rules, const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  const std::vector<int> tp = place_counts(rules, parallel, kStageTp, parallel.stage_tp,
                                           parallel.tp, "ranks that share a layer");
  const std::vector<int> dp =
      place_counts(rules, parallel, kStageDp, parallel.stage_dp, parallel.dp, "parts of the batch");
  tree_rules(rules, config, dp);
  const auto differ = [](const std::vector<int>& counts, int degree) {
    return std::any_of(counts.begin(), counts.end(), [&](int ranks) { return ranks != degree; });
  };
  const bool differ_in_tp = differ(tp, parallel.tp);
  if (differ_in_tp) uneven_tp_rules(rules, config);
  if (!differ_in_tp && !differ(dp, parallel.dp)) return;
  uneven_rules(rules, config, differ_in_tp ? kStageTp : kStageDp);
  Places places(size_t(parallel.pp), PlaceDegrees{parallel.tp, parallel.dp});
  for (size_t place = 0; place < places.size(); ++place) {
    if (!tp.empty()) places[place].tp = tp[place];
    if (!dp.empty()) places[place].dp = dp[place];
  }
  dualpipe_rules(rules, config, places);
  group_rules(rules, parallel, places);
}

int64_t stages_of(const ParallelConfig& parallel) {
  if (parallel.schedule == ScheduleKind::Auto) return int64_t{parallel.pp} * parallel.chunks;
  const int chunks = parallel.chunks > 0 ? parallel.chunks : default_chunks(parallel.schedule);
  return int64_t{parallel.pp} * chunks / traits_of(parallel.schedule).param_copies();
}

// Only the last stage has something to compute without a layer.
void empty_stage_rules(ConfigRules& rules, const RunConfig& config,
                       const std::vector<int>& layers) {
  const auto empty = std::find(layers.begin(), layers.end(), 0);
  if (empty == layers.end()) return;
  const bool is_end = empty + 1 == layers.end() && layers.size() > 1;
  rules.require(is_end && !reads_images(config.model.family), kStageLayers,
                fmt::format("has 0 layers for stage {}, and only the last stage of a model of text "
                            "may have none, which then has the head",
                            empty - layers.begin()),
                "give it a layer");
}

void layer_count_rules(ConfigRules& rules, const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  const std::vector<int> layers = counts_of(rules, kStageLayers, parallel.stage_layers, 0);
  if (layers.empty() || parallel.pp < 1 || parallel.chunks < 0) return;
  const int64_t stages = stages_of(parallel);
  if (stages == 0) {
    return rules.require(false, kStageLayers,
                         "needs to know how many stages parallel.schedule = \"auto\" may have",
                         "set parallel.chunks");
  }
  rules.require(int64_t(layers.size()) == stages, kStageLayers,
                fmt::format("has {} numbers for {} stages (pp * chunks)", layers.size(), stages),
                "write one for each");
  const int64_t sum = std::accumulate(layers.begin(), layers.end(), int64_t{0});
  rules.require(sum == config.model.layers, kStageLayers,
                fmt::format("has {} layers, and model.layers is {}", sum, config.model.layers),
                "make them equal");
  empty_stage_rules(rules, config, layers);
}

}  // namespace

void stage_rules(ConfigRules& rules, const RunConfig& config) {
  place_rules(rules, config);
  layer_count_rules(rules, config);
}

}  // namespace trireme
