#include "train/ring_votes.h"

#include <algorithm>

#include "base/check.h"

namespace trireme {

std::vector<bool> suspects_of(const RingHashes& own, const RingHashes& other) {
  const size_t size = own.size();
  std::vector<int> num_pairs(size, 0);
  int all_pairs = 0;
  for (size_t witness = 0; witness < size; ++witness) {
    const size_t rank = (witness + 1) % size;
    if (own[rank] == other[witness]) continue;
    ++all_pairs;
    ++num_pairs[rank];
    ++num_pairs[witness];
  }
  const auto in_all = std::count(num_pairs.begin(), num_pairs.end(), all_pairs);
  const bool is_one = all_pairs > 1 && in_all == 1;
  std::vector<bool> suspects(size);
  for (size_t rank = 0; rank < size; ++rank) {
    suspects[rank] = is_one ? num_pairs[rank] == all_pairs : num_pairs[rank] > 0;
  }
  return suspects;
}

std::vector<bool> outvoted_in(const std::vector<RingHashes>& by_shift) {
  TRIREME_CHECK(by_shift.size() == 3, "three computations vote");
  const size_t size = by_shift.front().size();
  std::vector<bool> outvoted(size, false);
  for (size_t owner = 0; owner < size; ++owner) {
    size_t voters[3];
    int64_t votes[3];
    for (size_t shift = 0; shift < 3; ++shift) {
      voters[shift] = (owner + 2 * size - shift) % size;
      votes[shift] = by_shift[shift][voters[shift]];
    }
    if (size < 3) {
      if (votes[0] != votes[2]) outvoted[owner] = true;
      continue;
    }
    for (size_t one = 0; one < 3; ++one) {
      const int64_t second = votes[(one + 1) % 3], third = votes[(one + 2) % 3];
      if (second == third && votes[one] != second) outvoted[voters[one]] = true;
    }
  }
  return outvoted;
}

}  // namespace trireme
