#include "train/ring_votes.h"

#include <gtest/gtest.h>

#include <random>

namespace trireme {
namespace {

// What rank i computes of the micro-batches of rank `owner`; a wrong rank computes something else,
// if `errs` says so.
struct SimulatedRing {
  size_t size = 0;
  std::vector<bool> wrong;
  std::mt19937_64 random{7};
  double error_share = 1.0;

  int64_t computed(size_t by, size_t owner) {
    const bool errs = wrong[by] && double(random() % 1000) < 1000.0 * error_share;
    return int64_t(owner) * 1000 + (errs ? 1 + int64_t(random() % 999) : 0);
  }
  RingHashes shifted(size_t shift) {
    RingHashes hashes;
    for (size_t i = 0; i < size; ++i) hashes.push_back(computed(i, (i + shift) % size));
    return hashes;
  }
  std::vector<RingHashes> votes() { return {shifted(0), shifted(1), shifted(2)}; }
};

SimulatedRing ring_with(size_t size, size_t wrong) {
  SimulatedRing ring{.size = size, .wrong = std::vector<bool>(size, false)};
  if (wrong < size) ring.wrong[wrong] = true;
  return ring;
}

TEST(RingVotes, NobodyIsAccusedIfAllAgree) {
  for (size_t size = 1; size <= 9; ++size) {
    SimulatedRing ring = ring_with(size, SIZE_MAX);
    const std::vector<bool> nobody(size, false);
    EXPECT_EQ(suspects_of(ring.shifted(0), ring.shifted(1)), nobody);
    EXPECT_EQ(outvoted_in(ring.votes()), nobody);
  }
}

TEST(RingVotes, OfThreeOrMoreTheOneThatIsAlwaysWrongIsNamedAlone) {
  for (size_t size = 3; size <= 9; ++size) {
    for (size_t wrong = 0; wrong < size; ++wrong) {
      SimulatedRing ring = ring_with(size, wrong);
      EXPECT_EQ(suspects_of(ring.shifted(0), ring.shifted(1)), ring.wrong);
      EXPECT_EQ(outvoted_in(ring.votes()), ring.wrong);
    }
  }
}

// A rank that is wrong from time to time: never is only another one accused.
TEST(RingVotes, TheWrongOneIsAlwaysAmongTheSuspects) {
  for (size_t size = 2; size <= 9; ++size) {
    for (int trial = 0; trial < 200; ++trial) {
      SimulatedRing ring = ring_with(size, size_t(trial) % size);
      ring.error_share = 0.5;
      ring.random.seed(uint64_t(trial));
      const RingHashes own = ring.shifted(0), other = ring.shifted(1);
      const std::vector<bool> suspects = suspects_of(own, other);
      const bool is_clean = suspects == std::vector<bool>(size, false);
      EXPECT_TRUE(is_clean || suspects[size_t(trial) % size]);
      const std::vector<bool> outvoted = outvoted_in(ring.votes());
      for (size_t rank = 0; rank < size; ++rank) EXPECT_LE(outvoted[rank], ring.wrong[rank]);
    }
  }
}

TEST(RingVotes, OfTwoBothAreSuspectsAndOnlyOneThatDisagreesWithItselfIsNamed) {
  SimulatedRing ring = ring_with(2, 1);
  EXPECT_EQ(suspects_of(ring.shifted(0), ring.shifted(1)), std::vector<bool>(2, true));
  EXPECT_EQ(outvoted_in(ring.votes()), ring.wrong);  // other bits each time
  const RingHashes own = {10, 21}, other = {20, 11};
  EXPECT_EQ(outvoted_in({own, other, own}), std::vector<bool>(2, false));
}

// Two wrong ranks have no rank in common in all pairs, so everybody near them is a suspect.
TEST(RingVotes, TwoWrongOnesAreBothSuspects) {
  for (size_t size = 3; size <= 9; ++size) {
    for (size_t first = 0; first < size; ++first) {
      for (size_t second = first + 1; second < size; ++second) {
        SimulatedRing ring = ring_with(size, first);
        ring.wrong[second] = true;
        const std::vector<bool> suspects = suspects_of(ring.shifted(0), ring.shifted(1));
        EXPECT_TRUE(suspects[first] && suspects[second]) << size << first << second;
      }
    }
  }
}

}  // namespace
}  // namespace trireme
