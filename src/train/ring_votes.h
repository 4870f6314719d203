#pragma once

#include <cstdint>
#include <vector>

namespace trireme {

// Ranks that differ only in dp form a ring in which they compute each other's micro-batches. What
// they computed is compared by its hash: [rank of the ring] of whoever has computed it.
using RingHashes = std::vector<int64_t>;

// The ranks of a ring that may be wrong, if they and their neighbours have hashes that differ.
// own[i]: what rank i computed of its micro-batches. other[i]: what it computed of those of rank
// i + 1. One wrong rank spoils two pairs, (it, the one before) and (it, the one behind); so if one
// rank is in all pairs that differ, and there is more than one, it alone is returned. A ring of two
// has only one pair.
std::vector<bool> suspects_of(const RingHashes& own, const RingHashes& other);

// The ranks of a ring that are wrong by a majority of three computations of the same micro-batches.
// by_shift[s][i]: what rank i computed of the micro-batches of rank i + s; s = 0, 1, 2. In a ring
// of two the third computation is by the same rank as the first, so it tells only of a rank that
// does not agree with itself.
std::vector<bool> outvoted_in(const std::vector<RingHashes>& by_shift);

}  // namespace trireme
