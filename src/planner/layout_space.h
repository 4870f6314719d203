#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/layout_choice.h"
#include "schema/hardware.h"

namespace trireme {

// Buckets of so many bytes are tried beside those of one layer.
inline constexpr int64_t kSearchedBucketBytes = int64_t{64} << 20;

// Every layout is searched in every order up to so many ranks. Beyond, where the orders would
// double the time, only the meshes of the best layouts in the usual order are.
inline constexpr int kMostRanksInEveryOrder = 8192;

// The layouts that are searched, and the ways to run each of them.
struct LayoutSpace {
  std::vector<Mesh> meshes;
  std::vector<int> zero_levels = {0, 1, 2, 3};
  // The ways to run a layout. Each layout takes the fastest of them that fits; if several take the
  // same time, the first one in these lists. The configured buckets and prefetch come first.
  std::vector<MeshOrder> orders = {kUsualOrder};
  std::vector<OffloadChoice> offloads = {};  // rising; empty: the configured one
  std::vector<int64_t> bucket_bytes = {};    // beside the configured one
  std::vector<int> prefetches = {};          // beside the configured one
  // If set, only this exchange is tried, and only micro-batches of this size.
  std::optional<LayerExchange> exchange = {};
  std::optional<int64_t> micro_sequences = {};
  // If not empty, the search tries only layouts that equal one of these, apart from recomputation,
  // exchange, transfers and the order of the mesh.
  std::vector<LayoutChoice> like = {};
  // If no layout fits, the error says what the smallest one needs and what would make it fit.
  bool names_remedy = true;
};

// Returns the orders that can make a difference: the usual one, and those with pp outermost, in
// which dp or cp lies next to tp.
std::vector<MeshOrder> orders_on(const Hardware& hardware);

// Returns every layout of `num_ranks` ranks, and every way that can make a difference on this
// hardware.
LayoutSpace all_layouts(int num_ranks, const RunConfig& config, const Hardware& hardware);

}  // namespace trireme
