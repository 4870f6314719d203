#include "agent/place_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace trireme {
namespace {

// Calls visit(numbers) for all vectors of `size` numbers from `least` to `most`.
template <typename Visit>
void for_all_numbers(size_t size, int least, int most, const Visit& visit) {
  std::vector<int> numbers(size, least);
  while (true) {
    visit(numbers);
    size_t at = 0;
    while (at < size && numbers[at] == most) numbers[at++] = least;
    if (at == size) return;
    ++numbers[at];
  }
}

TEST(PlaceRanks, UsesNoSlotTwiceKeepsLivingRanksAndFailsOnlyWithoutRoom) {
  int num_cases = 0;
  for_all_numbers(3, 0, 2, [&](const std::vector<int>& slots) {
    for_all_numbers(3, -1, 2, [&](const std::vector<int>& kept) {
      std::vector<int> room = slots;
      for (const int host : kept) {
        if (host >= 0) --room[size_t(host)];
      }
      if (*std::min_element(room.begin(), room.end()) < 0) return;  // they cannot all live there
      for_all_numbers(3, -1, 2, [&](const std::vector<int>& before) {
        ++num_cases;
        const std::vector<int> hosts = place_ranks(slots, kept, before);
        if (hosts.empty()) {
          EXPECT_LT(slots[0] + slots[1] + slots[2], 3);
          return;
        }
        for (int host = 0; host < 3; ++host) {
          EXPECT_LE(std::count(hosts.begin(), hosts.end(), host), slots[size_t(host)]);
        }
        for (size_t rank = 0; rank < 3; ++rank) {
          EXPECT_TRUE(kept[rank] < 0 || hosts[rank] == kept[rank]);
          const bool could_stay = kept[rank] < 0 && before[rank] >= 0 &&
                                  room[size_t(before[rank])] >= 3;  // even if all wanted it
          EXPECT_TRUE(!could_stay || hosts[rank] == before[rank]);
        }
      });
    });
  });
  EXPECT_GT(num_cases, 10000);
}

TEST(PlaceRanks, FillsHostsInTheirOrderSoThatTheLastOnesAreSpares) {
  const std::vector<int> slots = {2, 2, 2}, nowhere(4, -1);
  EXPECT_EQ(place_ranks(slots, nowhere, nowhere), (std::vector<int>{0, 0, 1, 1}));
  // Host 1 is lost, so its ranks go to the spare one.
  const std::vector<int> left = {2, 0, 2}, kept = {0, 0, -1, -1}, before = {0, 0, 1, 1};
  EXPECT_EQ(place_ranks(left, kept, before), (std::vector<int>{0, 0, 2, 2}));
}

}  // namespace
}  // namespace trireme
