// The update that also copies what it changes.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/block_hash.h"
#include "base/hash.h"
#include "base/stream_copy.h"
#include "optim/optimizer.h"

namespace trireme {
namespace {

// Parts of this size are copied out of the caches. A kernel updates so few on the calling thread.
constexpr int64_t kInCacheElements = 4096;
constexpr int64_t kHashBlockElements = kHashBlockBytes / int64_t(sizeof(float));

// Returns elements [first, first + count) of a flat tensor. An absent tensor gives an absent part.
TensorRef part_of(const TensorRef& tensor_N, int64_t first, int64_t count) {
  if (!tensor_N) return {};
  return {static_cast<char*>(tensor_N.data) + first * size_of(tensor_N.dtype), tensor_N.dtype,
          Shape{count}};
}

// Copies with the addresses that they had before anything was moved.
using ByAddress = std::vector<std::pair<const std::byte*, HashedCopy*>>;

// The copies of a tensor's parts, in the order of their elements; empty if they do not cover it.
std::vector<HashedCopy*> copies_of(const TensorRef& tensor_N, const ByAddress& by_address) {
  const auto* at = static_cast<const std::byte*>(tensor_N.data);
  const std::byte* const end = at + tensor_N.bytes();
  auto copy = std::lower_bound(by_address.begin(), by_address.end(), at,
                               [](const auto& a, const std::byte* b) { return a.first < b; });
  std::vector<HashedCopy*> copies;
  for (; copy != by_address.end() && copy->first == at && at < end; ++copy) {
    copies.push_back(copy->second);
    at += copy->second->bytes;
  }
  if (at != end) copies.clear();
  return copies;
}

// Whether the copies are neighbours in the target, as the parts are.
bool are_neighbours(const std::vector<HashedCopy*>& copies) {
  for (size_t i = 1; i < copies.size(); ++i) {
    if (copies[i]->offset != copies[i - 1]->offset + copies[i - 1]->bytes) return false;
  }
  return !copies.empty();
}

}  // namespace

Optimizer::Param Optimizer::part_of_param(const Param& param, int64_t first, int64_t count) {
  Param part = param;
  for (TensorRef* tensor : {&part.grad_N, &part.second_use_N, &part.master_N, &part.exp_avg_N,
                            &part.exp_avg_sq_N, &part.param_N}) {
    *tensor = part_of(*tensor, first, count);
  }
  part.first += first;
  return part;
}

bool Optimizer::is_clipped(const Param& param) const {
  return qk_clip_ && param.logit_side != LogitSide::None;
}

bool Optimizer::can_be_copied(const Param& param) const {
  return param.grad_N && !param.is_in_file && !param.is_frozen && !param.muon &&
         param.balance_rate == 0.0 && param.running_rate == 0.0 && !is_clipped(param);
}

std::array<TensorRef*, 3> Optimizer::state_of(Param& param) {
  return {&param.master_N, &param.exp_avg_N, &param.exp_avg_sq_N};
}

void Optimizer::bind_copies(std::span<HashedCopy> copies, std::span<std::byte> home) {
  home_ = home;
  is_copied_.assign(params_.size(), false);
  ByAddress by_address;
  for (HashedCopy& copy : copies) by_address.emplace_back(copy.from, &copy);
  std::sort(by_address.begin(), by_address.end());
  for (size_t i = 0; i < params_.size(); ++i) {
    Param& param = params_[i];
    if (param.is_frozen && !is_clipped(param)) {
      for (HashedCopy* copy : copies_of(param.master_N, by_address)) copy->is_constant = true;
    }
    if (!can_be_copied(param)) continue;
    std::array<std::vector<HashedCopy*>, 3> of_state;
    bool has_all = true;
    for (size_t k = 0; k < of_state.size(); ++k) {
      const TensorRef& tensor_N = *state_of(param)[k];
      if (!tensor_N) continue;
      of_state[k] = copies_of(tensor_N, by_address);
      has_all = has_all && !of_state[k].empty() && of_state[k].size() == of_state[0].size();
    }
    if (!has_all) continue;
    is_copied_[i] = true;
    const size_t first_part = copied_parts_.size();
    int64_t first = 0;
    for (size_t part = 0; part < of_state[0].size(); ++part) {
      CopiedPart added{.param = i, .first = first};
      added.count = of_state[0][part]->bytes / size_of(param.master_N.dtype);
      for (size_t k = 0; k < of_state.size(); ++k) {
        if (!of_state[k].empty()) added.copies[k] = of_state[k][part];
      }
      first += added.count;
      copied_parts_.push_back(added);
    }
    if (home.empty()) continue;
    const size_t num_moves = moves_.size();
    move_state(param, of_state, home);
    for (size_t part = first_part; part < copied_parts_.size(); ++part) {
      for (size_t k = 0; k < of_state.size(); ++k) {
        const TensorRef& tensor_N = *state_of(param)[k];
        copied_parts_[part].is_moved[k] = tensor_N && moves_.size() > num_moves &&
                                          tensor_N.data >= home.data() &&
                                          tensor_N.data < home.data() + home.size();
      }
    }
  }
  std::stable_sort(copied_parts_.begin(), copied_parts_.end(),
                   [](const CopiedPart& a, const CopiedPart& b) { return a.count > b.count; });
}

// A master that is the parameter itself stays, because layers read it. The moments move together.
void Optimizer::move_state(Param& param, const std::array<std::vector<HashedCopy*>, 3>& copies,
                           std::span<std::byte> home) {
  const bool moves_moments = (copies[1].empty() || are_neighbours(copies[1])) &&
                             (copies[2].empty() || are_neighbours(copies[2]));
  if (!moves_moments) return;
  for (size_t k = 0; k < copies.size(); ++k) {
    if (copies[k].empty() || (k == 0 && !(param.param_N && are_neighbours(copies[0])))) continue;
    TensorRef& tensor_N = *state_of(param)[k];
    std::byte* const to = home.data() + copies[k].front()->offset;
    moves_.push_back({static_cast<std::byte*>(tensor_N.data), to, tensor_N.bytes()});
    std::memcpy(to, tensor_N.data, size_t(tensor_N.bytes()));
    tensor_N.data = to;
    for (HashedCopy* copy : copies[k]) copy->from = home.data() + copy->offset;
  }
}

void Optimizer::release_copies() {
  for (const Move& move : moves_) std::memcpy(move.from, move.to, size_t(move.bytes));
  for (Param& param : params_) {
    for (TensorRef* tensor_N : state_of(param)) {
      const auto move = std::find_if(moves_.begin(), moves_.end(),
                                     [&](const Move& moved) { return tensor_N->data == moved.to; });
      if (move != moves_.end()) tensor_N->data = move->from;
    }
  }
  moves_.clear();
  copied_parts_.clear();
  is_copied_.clear();
  home_ = copy_target_ = {};
}

TensorRef Optimizer::moved(const TensorRef& tensor_N) const {
  TensorRef result = tensor_N;
  for (const Move& move : moves_) {
    if (tensor_N && tensor_N.data == move.from) result.data = move.to;
  }
  return result;
}

void Optimizer::update_with_copies(Ctx& ctx) {
  ctx.stream.team().parallel_for(int64_t(copied_parts_.size()), [&](int64_t tile, int) {
    const CopiedPart& part = copied_parts_[size_t(tile)];
    takes_registers(part) ? update_whole_blocks(ctx, part) : update_part(ctx, part);
  });
}

// Only an AdamW in fp32 can, and what the update leaves in place must not be the target.
bool Optimizer::takes_registers(const CopiedPart& part) const {
  const Param& param = params_[part.param];
  const bool is_adamw = config_.name != OptimizerKind::Sgd;
  if (!is_adamw || param.master_N.dtype != DType::F32 || param.exp_avg_N.dtype != DType::F32 ||
      part.count <= kHashBlockElements || !is_out_of_place()) {
    return false;
  }
  return std::all_of(part.copies.begin(), part.copies.end(), [&](const HashedCopy* copy) {
    const std::byte* to = copy_target_.data() + copy->offset;
    return reinterpret_cast<uintptr_t>(to) % alignof(BlockHash) == 0;
  });
}

void Optimizer::update_whole_blocks(Ctx& ctx, const CopiedPart& part) const {
  const int64_t in_blocks = BlockHash::num_blocks(part.copies[0]->bytes) * kHashBlockElements;
  std::array<BlockHash, 3> hashes;
  const auto to = [&](size_t k) {
    return HashedWrite{reinterpret_cast<float*>(copy_target_.data() + part.copies[k]->offset),
                       &hashes[k]};
  };
  AdamWArgs args = adamw_args(part_of_param(params_[part.param], part.first, in_blocks));
  args.copies = {to(0), to(1), to(2), !part.is_moved[0], !part.is_moved[1]};
  ctx.kernels.adamw(ctx.stream, args);
  end_stream_copies();
  update_in_caches(ctx, part, in_blocks, part.count - in_blocks, nullptr);
  for (size_t k = 0; k < hashes.size(); ++k) {
    HashedCopy& copy = *part.copies[k];
    const std::span data(copy_target_.data() + copy.offset, size_t(copy.bytes));
    copy.checksum = hashes[k].finish(data);
    copy.is_made = true;
  }
}

void Optimizer::update_part(Ctx& ctx, const CopiedPart& part) const {
  std::array<Hasher64, 3> hashers;
  for (int64_t done = 0; done < part.count; done += kInCacheElements) {
    update_in_caches(ctx, part, done, std::min(kInCacheElements, part.count - done), &hashers);
  }
  for (size_t k = 0; k < part.copies.size(); ++k) {
    if (part.copies[k] == nullptr) continue;
    part.copies[k]->checksum = hashers[k].digest();
    part.copies[k]->is_made = true;
  }
}

void Optimizer::update_in_caches(Ctx& ctx, const CopiedPart& part, int64_t first, int64_t count,
                                 std::array<Hasher64, 3>* hashers) const {
  Param updated = part_of_param(params_[part.param], part.first + first, count);
  const auto target_of = [&](size_t k) {
    const int64_t width = part.copies[k]->bytes / part.count;
    return copy_target_.data() + part.copies[k]->offset + first * width;
  };
  for (size_t k = 0; k < part.copies.size(); ++k) {
    if (!part.is_moved[k] || !is_out_of_place()) continue;
    TensorRef& tensor_N = *state_of(updated)[k];
    std::memcpy(target_of(k), tensor_N.data, size_t(tensor_N.bytes()));
    tensor_N.data = target_of(k);
  }
  update(ctx, updated);
  for (size_t k = 0; k < part.copies.size(); ++k) {
    if (part.copies[k] == nullptr) continue;
    const TensorRef& tensor_N = *state_of(updated)[k];
    const std::span data(static_cast<const std::byte*>(tensor_N.data), size_t(tensor_N.bytes()));
    if (hashers != nullptr) (*hashers)[k].update(data);
    if (data.data() != target_of(k)) stream_copy(target_of(k), data);
  }
  end_stream_copies();
}

}  // namespace trireme
