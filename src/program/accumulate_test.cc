#include "program/accumulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "base/check.h"

namespace trireme {
namespace {

int log2_floor(uint64_t n) { return static_cast<int>(std::bit_width(n)) - 1; }

// Sums by the definition of the tree: halves down to single indices, skipping indices from
// num_global on.
float tree_sum(const std::vector<float>& leaves, size_t first, size_t size) {
  if (size == 1) return leaves[first];
  const float left = tree_sum(leaves, first, size / 2);
  if (first + size / 2 >= leaves.size()) return left;
  return left + tree_sum(leaves, first + size / 2, size / 2);
}

float tree_sum(const std::vector<float>& leaves) {
  return tree_sum(leaves, 0, std::bit_ceil(leaves.size()));
}

// Numbers of very different magnitudes, so that almost every other order of summation gives other
// bits.
std::vector<float> random_leaves(size_t n, std::mt19937& random) {
  std::vector<float> leaves(n);
  for (float& leaf : leaves) {
    leaf = std::ldexp(std::uniform_real_distribution<float>(-1, 1)(random),
                      std::uniform_int_distribution<int>(-12, 12)(random));
  }
  return leaves;
}

Program program_of(const std::vector<int>& order, int16_t chunk = 0) {
  Program program;
  for (const int k : order)
    program.push_back({.kind = ActionKind::W, .chunk = chunk, .microbatch = k});
  return program;
}

std::vector<int> ascending(int m) {
  std::vector<int> order(m);
  for (int k = 0; k < m; ++k) order[k] = k;
  return order;
}

std::vector<int> shuffled(int m, std::mt19937& random) {
  std::vector<int> order = ascending(m);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

// Runs the W and SumGrad of one chunk on fp32 slots that begin as NaN, so that reading an unwritten
// slot is noticed.
std::vector<float> run(const Accumulated& accumulated, const std::vector<float>& leaf_of,
                       int chunk) {
  std::vector<float> slots(accumulated.chunks[chunk].num_slots, std::nanf(""));
  for (const Action& action : accumulated.program) {
    if (action.chunk != chunk) continue;
    if (action.kind == ActionKind::SumGrad) {
      slots.at(action.grad_slot) += slots.at(action.grad_slot_b);
      slots.at(action.grad_slot_b) = std::nanf("");
    } else if (action.accumulate) {
      slots.at(action.grad_slot) += leaf_of.at(action.microbatch);
    } else {
      slots.at(action.grad_slot) = leaf_of.at(action.microbatch);
    }
  }
  return slots;
}

// Returns the largest number of partial sums alive at once if leaves come in this order and are
// joined as early as possible.
int most_alive(const std::vector<int>& order) {
  const int64_t m = static_cast<int64_t>(order.size());
  std::set<int> done;
  int most = 0;
  for (const int k : order) {
    int before = 0;
    const auto count = [&](auto&& self, int64_t first, int64_t size) -> bool {  // true if complete
      if (first >= m) return true;
      if (size == 1) {
        before += done.contains(static_cast<int>(first)) ? 1 : 0;
        return done.contains(static_cast<int>(first));
      }
      const int at_entry = before;
      const bool left = self(self, first, size / 2);
      const bool right = self(self, first + size / 2, size / 2);
      if (left && right) before = at_entry + 1;
      return left && right;
    };
    count(count, 0, std::bit_ceil(static_cast<uint64_t>(m)));
    most = std::max(most, before + 1);
    done.insert(k);
  }
  return most;
}

TEST(Accumulate, LayoutEqualsTheRecursiveTreeBitwiseForEveryCountAndOrder) {
  for (int m = 1; m <= 33; ++m) {
    for (unsigned seed = 0; seed < 20; ++seed) {
      std::mt19937 random(seed * 100 + m);
      const std::vector<float> leaves = random_leaves(m, random);
      std::vector<int> order = shuffled(m, random);
      if (seed == 0) std::sort(order.begin(), order.end());
      if (seed == 1) std::sort(order.rbegin(), order.rend());
      const Accumulated result =
          accumulate(program_of(order), 1, AccumulateMode::Layout, MicrobatchMap::contiguous(m));
      const ChunkGradient& chunk = result.chunks[0];
      ASSERT_EQ(chunk.partials.size(), 1u);
      ASSERT_EQ(chunk.partials[0].slot, 0);
      const float sum = run(result, leaves, 0)[0];
      ASSERT_EQ(std::bit_cast<uint32_t>(sum), std::bit_cast<uint32_t>(tree_sum(leaves)))
          << "m " << m << " seed " << seed;
      ASSERT_EQ(chunk.num_slots, most_alive(order)) << "m " << m << " seed " << seed;
      if (seed == 0) {
        ASSERT_LE(chunk.num_slots, log2_floor(m) + 1 + 1);
      }
    }
  }
}

// Each rank sums what it can. Joining the partial sums of all ranks along the tree gives the same
// bits.
TEST(Accumulate, AlignedPartialsOfAllRanksJoinToTheSameTree) {
  for (const bool is_strided : {false, true}) {
    for (int dp = 1; dp <= 6; ++dp) {
      for (int m = 1; m <= 9; ++m) {
        std::mt19937 random(dp * 100 + m);
        const std::vector<float> leaves = random_leaves(static_cast<size_t>(dp) * m, random);
        std::map<std::pair<int64_t, int>, float> nodes;
        for (int r = 0; r < dp; ++r) {
          const MicrobatchMap map =
              is_strided ? MicrobatchMap::strided(m, dp, r) : MicrobatchMap::contiguous(m, dp, r);
          std::vector<float> local;
          for (const int64_t global : map.global_of) local.push_back(leaves[global]);
          const Accumulated result =
              accumulate(program_of(shuffled(m, random)), 1, AccumulateMode::Layout, map);
          const std::vector<float> slots = run(result, local, 0);
          for (const GradPartial& partial : result.chunks[0].partials) {
            nodes[{partial.first, partial.level}] = slots[partial.slot];
          }
        }
        const auto join = [&](auto&& self, int64_t first, int level) -> float {
          if (const auto found = nodes.find({first, level}); found != nodes.end()) {
            return found->second;
          }
          TRIREME_CHECK(level > 0, "a leaf is in no partial");
          const int64_t right = first + (int64_t{1} << (level - 1));
          const float left_sum = self(self, first, level - 1);
          if (right >= static_cast<int64_t>(leaves.size())) return left_sum;
          return left_sum + self(self, right, level - 1);
        };
        const int root_level = log2_floor(std::bit_ceil(leaves.size()));
        ASSERT_EQ(join(join, 0, root_level), tree_sum(leaves))
            << (is_strided ? "strided" : "contiguous") << " dp " << dp << " m " << m;
      }
    }
  }
}

TEST(Accumulate, ContiguousBlocksOfPowersOfTwoLeaveOnePartialPerRank) {
  for (const int dp : {1, 2, 4, 8}) {
    for (const int m : {1, 2, 4, 8}) {
      for (int r = 0; r < dp; ++r) {
        const Accumulated result = accumulate(program_of(ascending(m)), 1, AccumulateMode::Layout,
                                              MicrobatchMap::contiguous(m, dp, r));
        const std::vector<GradPartial> expected = {
            {.slot = 0, .first = int64_t{r} * m, .level = log2_floor(m)}};
        EXPECT_EQ(result.chunks[0].partials, expected);
      }
    }
  }
}

TEST(Accumulate, FixedOverwritesOnceAndThenAdds) {
  Program program = program_of({2, 0, 1}, 0);
  const Program other = program_of({1, 2, 0}, 1);
  program.insert(program.begin() + 1, other.begin(), other.end());
  program.push_back(
      {.kind = ActionKind::FB, .chunk = 0, .microbatch = 7, .chunk_b = 1, .microbatch_b = 3});
  const Accumulated result = accumulate(program, 2, AccumulateMode::Fixed, {});
  std::vector<bool> seen(2, false);
  for (const Action& action : result.program) {
    const int chunk = action.kind == ActionKind::FB ? action.chunk_b : action.chunk;
    EXPECT_EQ(action.accumulate, seen[chunk]);
    EXPECT_EQ(action.grad_slot, 0);
    seen[chunk] = true;
  }
  EXPECT_EQ(result.chunks[1].num_slots, 1);
}

TEST(Accumulate, ChunksHaveTreesOfTheirOwnAndAnOverlappedPairWritesItsBackwardHalf) {
  Program program;
  for (int k = 0; k < 4; ++k) {
    program.push_back({.kind = ActionKind::W, .chunk = 0, .microbatch = k});
    program.push_back(
        {.kind = ActionKind::FB, .chunk = 0, .microbatch = k + 9, .chunk_b = 1, .microbatch_b = k});
  }
  append_step(program);
  const Accumulated result =
      accumulate(program, 2, AccumulateMode::Layout, MicrobatchMap::contiguous(4));
  int sums[2] = {0, 0};
  for (const Action& action : result.program) {
    if (action.kind == ActionKind::SumGrad) ++sums[action.chunk];
  }
  EXPECT_EQ(sums[0], 3);
  EXPECT_EQ(sums[1], 3);
  EXPECT_EQ(result.chunks[0].num_slots, 3);
  EXPECT_EQ(result.chunks[1].num_slots, 3);
  EXPECT_EQ(result.program.back().kind, ActionKind::Step);
}

}  // namespace
}  // namespace trireme
