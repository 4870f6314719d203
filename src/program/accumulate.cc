#include "program/accumulate.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"

namespace trireme {
namespace {

// The storage of a leaf is live from its W to the join that adds it to its left neighbour.
struct PartialSumLife {
  size_t begin = 0;
  size_t end = SIZE_MAX;
};

// The canonical tree of one chunk during the walk over the program. Storage is named by its leaf at
// first; assign_slots then gives the same slot to leaves that are never live together.
class GradTree {
 public:
  explicit GradTree(int64_t num_global) : num_global_(num_global) {}

  // Adds a leaf. Appends a pair (left, right) of leaves for each join that it completes.
  void add(int64_t leaf, std::vector<std::pair<int64_t, int64_t>>& joins) {
    TRIREME_CHECK(leaf >= 0 && leaf < num_global_, "micro-batch beyond the map");
    TRIREME_CHECK(!lifetimes_.contains(leaf), "two weight gradients of one micro-batch");
    lifetimes_[leaf] = {.begin = clock_++};
    Node node{0, leaf};
    int64_t storage = leaf;
    while (!is_root(node)) {
      const Node sibling{node.level, node.index ^ 1};
      if (first_of(sibling) < num_global_) {
        const auto found = complete_.find(sibling);
        if (found == complete_.end()) break;
        const auto [left, right] = std::minmax(storage, found->second);
        joins.emplace_back(left, right);
        lifetimes_[right].end = clock_++;
        storage = left;
        complete_.erase(found);
      }
      node = {node.level + 1, node.index / 2};
    }
    complete_[node] = storage;
  }

  // First fit in the order of birth, which is optimal for intervals. The leftmost leaf, whose
  // storage holds the sum in the end, swaps its slot with the leaf that has slot 0.
  std::map<int64_t, int16_t> assign_slots(int& num_slots) const {
    std::vector<std::pair<PartialSumLife, int64_t>> by_birth;
    for (const auto& [leaf, lifetime] : lifetimes_) by_birth.emplace_back(lifetime, leaf);
    std::sort(by_birth.begin(), by_birth.end(),
              [](const auto& a, const auto& b) { return a.first.begin < b.first.begin; });
    std::map<int64_t, int16_t> slots;
    std::vector<size_t> free_from;  // [slot]
    for (const auto& [lifetime, leaf] : by_birth) {
      size_t slot = 0;
      while (slot < free_from.size() && free_from[slot] > lifetime.begin) ++slot;
      if (slot == free_from.size()) free_from.push_back(0);
      free_from[slot] = lifetime.end;
      slots[leaf] = static_cast<int16_t>(slot);
    }
    num_slots = static_cast<int>(free_from.size());
    if (slots.empty()) return slots;
    const int16_t of_sum = slots.begin()->second;
    for (auto& [leaf, slot] : slots) {
      if (slot == of_sum) {
        slot = 0;
      } else if (slot == 0) {
        slot = of_sum;
      }
    }
    return slots;
  }

  std::vector<GradPartial> partials(const std::map<int64_t, int16_t>& slots) const {
    std::vector<GradPartial> result;
    for (const auto& [node, storage] : complete_) {
      result.push_back({slots.at(storage), first_of(node), node.level});
    }
    std::sort(result.begin(), result.end(),
              [](const GradPartial& a, const GradPartial& b) { return a.first < b.first; });
    return result;
  }

 private:
  struct Node {
    int level = 0;
    int64_t index = 0;
    // clang-tidy 14 finds a zero in the comparison that the compiler writes.
    auto operator<=>(const Node&) const = default;  // NOLINT(modernize-use-nullptr)
  };

  static int64_t first_of(const Node& node) { return node.index << node.level; }
  bool is_root(const Node& node) const {
    return node.index == 0 && (int64_t{1} << node.level) >= num_global_;
  }

  int64_t num_global_;
  size_t clock_ = 0;
  std::map<Node, int64_t> complete_;  // node -> leaf whose storage holds its sum
  std::map<int64_t, PartialSumLife> lifetimes_;
};

bool makes_weight_gradient(const Action& action) {
  return action.kind == ActionKind::W || action.kind == ActionKind::BW ||
         action.kind == ActionKind::FB;
}

int16_t gradient_chunk(const Action& action) {
  return action.kind == ActionKind::FB ? action.chunk_b : action.chunk;
}

int32_t gradient_microbatch(const Action& action) {
  return action.kind == ActionKind::FB ? action.microbatch_b : action.microbatch;
}

Accumulated accumulate_in_program_order(const Program& program, int num_chunks) {
  Accumulated result{program, std::vector<ChunkGradient>(num_chunks)};
  std::vector<bool> begun(num_chunks, false);
  for (Action& action : result.program) {
    if (!makes_weight_gradient(action)) continue;
    const int chunk = gradient_chunk(action);
    action.grad_slot = 0;
    action.accumulate = begun[chunk];
    begun[chunk] = true;
  }
  for (ChunkGradient& chunk : result.chunks) chunk = {.num_slots = 1, .partials = {{}}};
  return result;
}

Accumulated accumulate_along_tree(const Program& program, int num_chunks,
                                  const MicrobatchMap& map) {
  Accumulated result;
  result.chunks.resize(num_chunks);
  std::vector<GradTree> trees(num_chunks, GradTree(map.num_global));
  // During the walk, slot fields are indices into these lists; assign_slots turns them into slots
  // at the end.
  std::vector<int64_t> leaf_at;    // [action of the result] leaf that is written, or left operand
  std::vector<int64_t> leaf_b_at;  // [action of the result] right operand
  std::vector<std::pair<int64_t, int64_t>> joins;
  const auto append = [&](const Action& action, int64_t leaf, int64_t leaf_b) {
    result.program.push_back(action);
    leaf_at.push_back(leaf);
    leaf_b_at.push_back(leaf_b);
  };
  for (const Action& action : program) {
    if (!makes_weight_gradient(action)) {
      append(action, -1, -1);
      continue;
    }
    const int16_t chunk = gradient_chunk(action);
    const int64_t leaf = map.global_of.at(gradient_microbatch(action));
    append(action, leaf, -1);
    result.program.back().accumulate = false;
    joins.clear();
    trees[chunk].add(leaf, joins);
    const Action sum{.kind = ActionKind::SumGrad, .chunk = chunk, .microbatch = -1};
    for (const auto& [left, right] : joins) append(sum, left, right);
  }
  std::vector<std::map<int64_t, int16_t>> slots(num_chunks);
  for (int chunk = 0; chunk < num_chunks; ++chunk) {
    slots[chunk] = trees[chunk].assign_slots(result.chunks[chunk].num_slots);
    result.chunks[chunk].partials = trees[chunk].partials(slots[chunk]);
  }
  for (size_t i = 0; i < result.program.size(); ++i) {
    Action& action = result.program[i];
    if (leaf_at[i] < 0) continue;
    const auto& of_chunk = slots[gradient_chunk(action)];
    action.grad_slot = of_chunk.at(leaf_at[i]);
    if (leaf_b_at[i] >= 0) action.grad_slot_b = of_chunk.at(leaf_b_at[i]);
  }
  return result;
}

}  // namespace

MicrobatchMap MicrobatchMap::contiguous(int num_microbatches, int dp, int dp_rank) {
  MicrobatchMap map{{}, int64_t{num_microbatches} * dp};
  for (int64_t k = 0; k < num_microbatches; ++k) {
    map.global_of.push_back(int64_t{dp_rank} * num_microbatches + k);
  }
  return map;
}

MicrobatchMap MicrobatchMap::contiguous_halves(int num_microbatches, int dp, int dp_rank) {
  const int half = num_microbatches / 2;
  MicrobatchMap map = contiguous(half, 2 * dp, dp_rank);
  const MicrobatchMap upper = contiguous(half, 2 * dp, dp + dp_rank);
  map.global_of.insert(map.global_of.end(), upper.global_of.begin(), upper.global_of.end());
  return map;
}

MicrobatchMap MicrobatchMap::strided(int num_microbatches, int dp, int dp_rank) {
  MicrobatchMap map{{}, int64_t{num_microbatches} * dp};
  for (int64_t k = 0; k < num_microbatches; ++k) map.global_of.push_back(k * dp + dp_rank);
  return map;
}

Accumulated accumulate(const Program& program, int num_chunks, AccumulateMode mode,
                       const MicrobatchMap& map) {
  return mode == AccumulateMode::Fixed ? accumulate_in_program_order(program, num_chunks)
                                       : accumulate_along_tree(program, num_chunks, map);
}

void append_step(Program& program) {
  program.push_back({.kind = ActionKind::Step, .chunk = -1, .microbatch = -1});
}

void append_validate(Program& program) {
  program.push_back({.kind = ActionKind::Validate, .chunk = -1, .microbatch = -1});
}

}  // namespace trireme
