#pragma once

#include <compare>
#include <optional>
#include <string>
#include <vector>

#include "compile/run_plan.h"

namespace trireme {

// How the ranks of one layer share its tokens and exchange them.
struct LayerExchange {
  bool sequence = false;
  bool tp_overlap = false;
  ContextExchange context = ContextExchange::Ring;

  friend auto operator<=>(const LayerExchange&, const LayerExchange&) = default;
};

// These settings say where a rank keeps its state, and in which pieces it sends its tensors.
struct LayoutTransfers {
  OffloadChoice offload = OffloadChoice::None;
  int64_t bucket_bytes = 0;
  int prefetch = 1;

  friend bool operator==(const LayoutTransfers&, const LayoutTransfers&) = default;
};
LayoutTransfers transfers_of(const RunConfig& config);

// The settings of a run that do not change what is trained: how its ranks share the work.
struct LayoutChoice {
  Mesh mesh;
  int zero = 0;
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  int chunks = 0;
  int64_t micro_sequences = 1;
  Recompute recompute = Recompute::None;
  LayerExchange exchange;
  int hsdp_shard = 0;
  std::optional<LayoutTransfers> transfers = {};  // absent: as configured

  friend bool operator==(const LayoutChoice&, const LayoutChoice&) = default;
};

void set_exchange(ParallelConfig& parallel, const LayerExchange& exchange);
RunConfig with_layout(RunConfig config, const LayoutChoice& layout);

// Returns text such as "tp 8, pp 4, dp 2, ZeRO 1, interleaved x 2, micro 1, full"; settings at
// their lowest value are left out.
std::string describe(const LayoutChoice& layout);

// Returns the command-line options that turn `before` into `after`.
std::string set_options(const RunConfig& before, const RunConfig& after);
// Returns the options that give `config` this layout.
std::string set_options(const LayoutChoice& layout, int64_t global_sequences,
                        const RunConfig& config);

// Returns every mesh of `num_ranks` ranks.
std::vector<Mesh> meshes_of(int num_ranks, const ModelSpec& model);

// Returns the policies of recomputation that a search tries for a configured one. "fit" is tried
// alone: it finds a set of values for each layout.
std::vector<Recompute> recomputes_of(Recompute configured);

// Returns the exchanges that differ on a mesh: those of tp, if there is any, with and without
// sequence parallelism and overlap, and those of cp.
std::vector<LayerExchange> exchanges_of(const Mesh& mesh);

// Returns those of some orders that number the ranks of a mesh differently, and only the first one
// if all ranks share a node.
std::vector<MeshOrder> orders_of(Mesh mesh, const std::vector<MeshOrder>& orders,
                                 int ranks_per_node);

// Returns the values of parallel.hsdp_shard that differ on a mesh at this ZeRO level: 0, which
// shards over all of dp, and the data-parallel ranks that share a node in one of these orders, if
// there are others.
std::vector<int> shards_of(Mesh mesh, const std::vector<MeshOrder>& orders, int zero,
                           int ranks_per_node);

// Returns every combination of ZeRO level, shards, schedule, chunks, micro-batch and recomputation
// on one mesh, with the first of its exchanges. Some of them may be infeasible.
std::vector<LayoutChoice> layouts_of(const Mesh& mesh, const std::vector<MeshOrder>& orders,
                                     const ModelSpec& model, int64_t global_sequences,
                                     const std::vector<Recompute>& recomputes, int ranks_per_node);

}  // namespace trireme
