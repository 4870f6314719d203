#include "train/state_tensors.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"

namespace trireme {
namespace {

// Large enough that a thread spends its time on hashing, small enough for all threads to have some.
constexpr size_t kTileBytes = size_t{1} << 20;

std::string box_of(const ParamLayout& layout) {
  return layout.begin.to_string() + layout.extent.to_string();
}

// The owned elements lie in the box of the tensor-parallel rank.
std::string part_of(const OwnedTensors& owned) {
  return fmt::format("{}{{{}:{}}}", box_of(*owned.layout), owned.first, owned.first + owned.count);
}

}  // namespace

std::vector<StateTensor> state_tensors(const Engine& engine) {
  std::vector<StateTensor> tensors;
  const RankPlan& rank = engine.rank_plan();
  for (size_t c = 0; c < rank.chunks.size(); ++c) {
    const ChunkTables& chunk = rank.chunks[c];
    const std::optional<Frame> params = engine.stored_params(int(c));
    if (!params) continue;
    for (size_t p = 0; p < chunk.params.size(); ++p) {
      const std::string& name = chunk.params[p].name;
      tensors.push_back({name, box_of(chunk.layouts[p]), params->at(name)});
    }
  }
  const bool has_params = !tensors.empty();
  for (const OwnedTensors& owned : engine.owned()) {
    const std::string part = part_of(owned);
    const auto add = [&](const char* prefix, const TensorRef& tensor) {
      if (tensor) tensors.push_back({prefix + owned.spec->name, part, tensor});
    };
    const bool is_own_master = !owned.param_N;
    if (!has_params) add("", is_own_master ? owned.master_N : owned.param_N);
    if (!is_own_master) add("master/", owned.master_N);
    add("exp_avg/", owned.exp_avg_N);
    add("exp_avg_sq/", owned.exp_avg_sq_N);
  }
  return tensors;
}

std::vector<StateTensor> grad_tensors(const Engine& engine) {
  std::vector<StateTensor> tensors;
  for (const OwnedTensors& owned : engine.owned()) {
    if (!owned.grad_N) continue;
    tensors.push_back({"the gradient of " + owned.spec->name, part_of(owned), owned.grad_N});
  }
  return tensors;
}

TensorHashes::TensorHashes(const std::vector<StateTensor>& tensors) : values_(tensors.size()) {
  for (const StateTensor& state : tensors) {
    const auto* data = static_cast<const std::byte*>(state.tensor_N.data);
    const size_t bytes =
        size_t(state.tensor_N.num_elements()) * size_t(size_of(state.tensor_N.dtype));
    for (size_t at = 0; at < bytes; at += kTileBytes) {
      tiles_.emplace_back(data + at, std::min(bytes - at, kTileBytes));
    }
    ends_.push_back(tiles_.size());
  }
  tile_hashes_.resize(tiles_.size());
}

void TensorHashes::update(ThreadTeam& team) {
  team.parallel_for(int64_t(tiles_.size()), [&](int64_t tile, int) {
    tile_hashes_[size_t(tile)] = hash64(tiles_[size_t(tile)]);
  });
  size_t begin = 0;
  for (size_t tensor = 0; tensor < ends_.size(); ++tensor) {
    const std::span hashes(tile_hashes_.data() + begin, ends_[tensor] - begin);
    values_[tensor] = hash64(std::as_bytes(hashes));
    begin = ends_[tensor];
  }
}

int64_t TensorHashes::num_bytes() const {
  int64_t bytes = 0;
  for (const auto& tile : tiles_) bytes += int64_t(tile.size());
  return bytes;
}

}  // namespace trireme
