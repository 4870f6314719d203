#include "planner/search_task.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "schema/run_config_validate.h"

namespace trireme {
namespace {

// A value and those of a list that differ from it.
template <typename Value>
std::vector<Value> first_then_others(Value first, const std::vector<Value>& list) {
  std::vector<Value> all = {first};
  std::copy_if(list.begin(), list.end(), std::back_inserter(all),
               [&](Value value) { return value != first; });
  return all;
}

}  // namespace

LayoutTransfers TransferChoices::with_offload(int offload) const {
  return {offloads[size_t(offload)], bucket_bytes.front(), prefetches.front()};
}

std::vector<LayoutTransfers> TransferChoices::differing_for(const LayoutChoice& layout,
                                                            LayoutBounds& bounds) const {
  const LayoutTransfers configured = *layout.transfers;
  if (layout.mesh.dp == 1) return {configured};
  std::vector<LayoutTransfers> all;
  bool has_lone_layers = false;  // a choice in which every bucket has a single layer
  for (const int64_t bytes : bucket_bytes) {
    const bool joins_layers = bounds.joins_layers(layout.mesh, bytes);
    if (!joins_layers && std::exchange(has_lone_layers, true)) continue;
    for (const int prefetch : prefetches) {
      if (layout.zero < 2 && prefetch != configured.prefetch) continue;
      all.push_back({configured.offload, bytes, prefetch});
    }
  }
  return all;
}

TransferChoices transfer_choices(const RunConfig& config, const HostFacts& host,
                                 const LayoutSpace& space) {
  const LayoutTransfers configured = transfers_of(config);
  TransferChoices choices{{},
                          first_then_others(configured.bucket_bytes, space.bucket_bytes),
                          first_then_others(configured.prefetch, space.prefetches)};
  for (const OffloadChoice offload : space.offloads) {
    LayoutTransfers transfers = configured;
    transfers.offload = offload;
    const RunConfig with_offload = with_layout(config, {.transfers = transfers});
    if (validate_with_data(with_offload, host.data_vocab_size).empty())
      choices.offloads.push_back(offload);
  }
  if (choices.offloads.empty()) choices.offloads = {configured.offload};
  return choices;
}

NeededBytes needed_bytes(const RunPlan& compiled) {
  return {compiled.tightest().needed_bytes(), compiled.arena_bytes()};
}

RunPlan SearchTask::plan_of(const LayoutChoice& layout) const {
  RunPlan plan = started;
  plan.config = with_layout(config, layout);
  plan.mesh = layout.mesh;
  plan.shape.micro_sequences = layout.micro_sequences;
  plan.shape.recompute = layout.recompute;
  plan.num_microbatches = plan.global_sequences / layout.mesh.dp / layout.micro_sequences;
  return plan;
}

}  // namespace trireme
