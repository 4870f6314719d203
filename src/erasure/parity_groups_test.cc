#include "erasure/parity_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <random>
#include <set>

#include "erasure/reed_solomon.h"

namespace trireme {
namespace {

constexpr std::pair<int, int> kGroupCodes[] = {{1, 1}, {1, 2}, {2, 1}, {4, 2}, {8, 3}};

using Bytes = std::vector<std::byte>;

// The memory of the members of a group.
struct StoredGroup {
  int k, m;
  int64_t piece;
  std::vector<Bytes> blocks;             // [member], padded to k pieces
  std::vector<std::vector<Bytes>> rows;  // [member][row]

  std::span<std::byte> at(const GroupPiece& place) {
    if (place.is_parity) return rows[size_t(place.member)][size_t(place.number)];
    return std::span(blocks[size_t(place.member)])
        .subspan(size_t(place.number * piece), size_t(piece));
  }
  void apply(const std::vector<PieceProduct>& products) {
    for (const PieceProduct& product : products) {
      if (product.is_first) std::ranges::fill(at(product.target), std::byte{0});
      add_product(product.coefficient, at(product.source), at(product.target));
    }
  }
};

StoredGroup encoded_group(int k, int m) {
  std::mt19937 random(unsigned(k * 100 + m));
  StoredGroup group{k, m, piece_bytes(k * 65, k), {}, {}};
  for (int member = 0; member < k + m; ++member) {
    group.blocks.emplace_back(size_t(k * group.piece));
    for (std::byte& byte : group.blocks.back()) byte = std::byte(random());
    group.rows.emplace_back(size_t(m), Bytes(size_t(group.piece), std::byte{0x77}));
  }
  group.apply(encode_products(k, m));
  return group;
}

std::vector<MemberLoss> losses_of(uint32_t members, int k, int m) {
  std::vector<MemberLoss> losses;
  for (int member = 0; member < k + m; ++member) {
    const bool is_lost = (members >> member & 1) != 0;
    losses.push_back({is_lost, std::vector<bool>(size_t(m), is_lost)});
  }
  return losses;
}

TEST(ParityGroups, HoldEveryHostOnceAndNeighboursApart) {
  for (const auto& [k, m] : kGroupCodes) {
    for (int num_hosts = 1; num_hosts <= 40; ++num_hosts) {
      const std::vector<std::string> domains(static_cast<size_t>(num_hosts));
      const std::vector<ParityGroup> groups = parity_groups(domains, k, m);
      std::set<int> hosts;
      for (const ParityGroup& group : groups) {
        hosts.insert(group.hosts.begin(), group.hosts.end());
        EXPECT_GE(group.num_data(), 1);
        if (num_hosts < k + m) continue;
        EXPECT_EQ(group.num_parity, m);
        EXPECT_GE(group.num_data(), k);  // so that parity takes at most m / k of the blocks
        for (const int host : group.hosts) {
          const bool has_next = std::ranges::count(group.hosts, host + 1) > 0;
          EXPECT_FALSE(has_next && groups.size() > 1);
        }
      }
      EXPECT_EQ(int(hosts.size()), num_hosts);
    }
  }
}

// No other choice of groups of these sizes has fewer hosts of a domain in its fullest group, and a
// domain is named as too large exactly if its loss is more than a group can bear.
TEST(ParityGroups, SpreadEachFailureDomain) {
  const std::array<std::string, 4> names = {"", "north", "south", "west"};
  for (int number = 0; number < 4 * 4 * 4 * 4 * 4 * 4; ++number) {
    std::vector<std::string> domains;
    std::map<std::string, int> sizes;
    for (int rest = number; domains.size() < 6; rest /= 4) {
      domains.push_back(names[size_t(rest % 4)]);
      ++sizes[domains.back()];
    }
    for (const auto& [k, m] : {std::pair(1, 1), std::pair(2, 1), std::pair(1, 2)}) {
      const std::vector<ParityGroup> groups = parity_groups(domains, k, m);
      bool is_one_too_large = false;
      for (const ParityGroup& group : groups) {
        for (const auto& [name, size] : sizes) {
          const auto in_domain = [&, &domain = name](int host) {
            return domains[size_t(host)] == domain;
          };
          const int here = int(std::ranges::count_if(group.hosts, in_domain));
          if (name.empty()) continue;
          EXPECT_LE(here, (size + int(groups.size()) - 1) / int(groups.size()));
          is_one_too_large = is_one_too_large || here > group.num_parity;
        }
      }
      EXPECT_EQ(too_large_domain(domains, groups).has_value(), is_one_too_large);
    }
  }
}

TEST(ParityGroups, EveryStripeHasOnePieceOfEveryMember) {
  for (const auto& [k, m] : kGroupCodes) {
    const Stripes stripes(k, m);
    std::set<std::pair<int, int>> pieces, rows;  // (member, number)
    for (int stripe = 0; stripe < k + m; ++stripe) {
      std::set<int> members;
      for (int piece = 0; piece < k; ++piece) {
        const int member = stripes.member_of_piece(stripe, piece);
        EXPECT_EQ(stripes.of_piece(member, piece), stripe);
        members.insert(member);
        pieces.emplace(member, piece);
      }
      for (int row = 0; row < m; ++row) {
        const int member = stripes.member_of_row(stripe, row);
        EXPECT_EQ(stripes.of_row(member, row), stripe);
        members.insert(member);
        rows.emplace(member, row);
      }
      EXPECT_EQ(int(members.size()), k + m);
    }
    EXPECT_EQ(int(pieces.size()), (k + m) * k);
    EXPECT_EQ(int(rows.size()), (k + m) * m);
  }
}

// The parity of a stripe is that of ReedSolomon.
TEST(ParityGroups, RowsAreTheCodeOfTheirStripe) {
  for (const auto& [k, m] : kGroupCodes) {
    StoredGroup group = encoded_group(k, m);
    const Stripes stripes(k, m);
    for (int stripe = 0; stripe < k + m; ++stripe) {
      std::vector<Bytes> memory;
      for (int piece = 0; piece < k; ++piece) {
        const auto bytes = group.at({false, stripes.member_of_piece(stripe, piece), piece});
        memory.emplace_back(bytes.begin(), bytes.end());
      }
      memory.resize(size_t(k + m), Bytes(size_t(group.piece)));
      std::vector<Block> blocks;
      for (Bytes& bytes : memory) blocks.push_back({bytes});
      ReedSolomon::make(k, m)->encode(blocks);
      for (int row = 0; row < m; ++row) {
        const int member = stripes.member_of_row(stripe, row);
        EXPECT_TRUE(std::ranges::equal(group.at({true, member, row}), memory[size_t(k + row)]));
      }
    }
  }
}

TEST(ParityGroups, EveryLossOfAtMostMMembersComesBackAndEveryLargerOneIsRefused) {
  for (const auto& [k, m] : kGroupCodes) {
    const StoredGroup whole = encoded_group(k, m);
    for (uint32_t lost = 0; lost < uint32_t{1} << (k + m); ++lost) {
      const int num_lost = std::popcount(lost);
      if (num_lost > m + 1) continue;
      const auto products = rebuild_products(k, m, losses_of(lost, k, m));
      ASSERT_EQ(products.ok(), num_lost <= m) << k << "+" << m << " without " << lost;
      if (!products.ok()) continue;
      StoredGroup group = whole;
      for (int member = 0; member < k + m; ++member) {
        if ((lost >> member & 1) == 0) continue;
        std::ranges::fill(group.blocks[size_t(member)], std::byte{0x55});
        for (Bytes& row : group.rows[size_t(member)]) std::ranges::fill(row, std::byte{0xaa});
      }
      group.apply(*products);
      ASSERT_TRUE(group.blocks == whole.blocks) << k << "+" << m << " without " << lost;
    }
  }
}

// A damaged parity piece counts as lost where it is needed, and nowhere else.
TEST(ParityGroups, ALostRowIsNotUsed) {
  const StoredGroup whole = encoded_group(4, 2);
  for (int member = 0; member < 6; ++member) {
    for (int row = 0; row < 12; ++row) {
      std::vector<MemberLoss> losses = losses_of(1u << member, 4, 2);
      losses[size_t(row / 2)].rows[size_t(row % 2)] = true;
      StoredGroup group = whole;
      std::ranges::fill(group.blocks[size_t(member)], std::byte{0x55});
      std::ranges::fill(group.rows[size_t(row / 2)][size_t(row % 2)], std::byte{0x55});
      for (Bytes& lost : group.rows[size_t(member)]) std::ranges::fill(lost, std::byte{0xaa});
      group.apply(*rebuild_products(4, 2, losses));
      ASSERT_TRUE(group.blocks == whole.blocks);
    }
  }
}

}  // namespace
}  // namespace trireme
