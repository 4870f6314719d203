#include "erasure/parity_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/check.h"
#include "erasure/reed_solomon.h"

namespace trireme {
namespace {

// Pieces are whole cache lines, so that each begins at a cache line.
constexpr int64_t kPieceMultiple = 64;

ReedSolomon code_of(int num_data, int num_parity) {
  const Result<ReedSolomon> code = ReedSolomon::make(num_data, num_parity);
  TRIREME_CHECK(code.ok(), code.error().message);
  return *code;
}

// The hosts, those of one domain after each other. Domains are in the order of their first hosts.
std::vector<int> by_domain(std::span<const std::string> domains) {
  std::map<std::string, int> first;
  for (int host = 0; host < int(domains.size()); ++host)
    first.try_emplace(domains[size_t(host)], host);
  std::vector<int> hosts(domains.size());
  std::iota(hosts.begin(), hosts.end(), 0);
  const auto begin_of = [&](int host) {
    const std::string& domain = domains[size_t(host)];
    return domain.empty() ? host : first.at(domain);
  };
  std::stable_sort(hosts.begin(), hosts.end(),
                   [&](int a, int b) { return begin_of(a) < begin_of(b); });
  return hosts;
}

}  // namespace

std::vector<ParityGroup> parity_groups(std::span<const std::string> domains, int num_data,
                                       int num_parity) {
  const int num_hosts = int(domains.size());
  TRIREME_CHECK(num_hosts >= 1 && num_data >= 1 && num_parity >= 0, "no hosts, or no code");
  const int num_groups = std::max(1, num_hosts / (num_data + num_parity));
  std::vector<ParityGroup> groups(static_cast<size_t>(num_groups));
  const std::vector<int> hosts = by_domain(domains);
  for (size_t i = 0; i < hosts.size(); ++i) {
    groups[i % groups.size()].hosts.push_back(hosts[i]);
  }
  for (ParityGroup& group : groups) {
    std::sort(group.hosts.begin(), group.hosts.end());
    group.num_parity = std::min(num_parity, int(group.hosts.size()) - 1);
  }
  return groups;
}

std::optional<TooLargeDomain> too_large_domain(std::span<const std::string> domains,
                                               std::span<const ParityGroup> groups) {
  for (const ParityGroup& group : groups) {
    std::map<std::string, int> num_hosts;
    for (const int host : group.hosts) ++num_hosts[domains[size_t(host)]];
    for (const auto& [name, count] : num_hosts) {
      if (!name.empty() && count > group.num_parity) return {{name, count, group.num_parity}};
    }
  }
  return std::nullopt;
}

int64_t piece_bytes(int64_t longest_block_bytes, int num_data) {
  const int64_t multiple = num_data * kPieceMultiple;
  return (longest_block_bytes + multiple - 1) / multiple * kPieceMultiple;
}

std::vector<PieceProduct> encode_products(int num_data, int num_parity) {
  const ReedSolomon code = code_of(num_data, num_parity);
  const Stripes stripes(num_data, num_parity);
  const int n = stripes.num_members();
  std::vector<PieceProduct> products;
  std::vector<bool> has_begun(static_cast<size_t>(n * std::max(1, num_parity)));
  for (int distance = 1; distance < n; ++distance) {
    for (int row = 0; row < num_parity; ++row) {
      const int piece = ((row - num_parity - distance) % n + n) % n;
      if (piece >= num_data) continue;  // that member stores a row of the same stripe
      for (int member = 0; member < n; ++member) {
        const int target = stripes.member_of_row(stripes.of_piece(member, piece), row);
        const size_t at = size_t(target * num_parity + row);
        products.push_back({.source = {false, member, piece},
                            .target = {true, target, row},
                            .coefficient = code.coefficient(row, piece),
                            .is_first = !has_begun[at]});
        has_begun[at] = true;
      }
    }
  }
  return products;
}

Result<std::vector<PieceProduct>> rebuild_products(int num_data, int num_parity,
                                                   const std::vector<MemberLoss>& losses) {
  const ReedSolomon code = code_of(num_data, num_parity);
  const Stripes stripes(num_data, num_parity);
  TRIREME_CHECK(losses.size() == size_t(stripes.num_members()), "one loss for each member");
  std::vector<PieceProduct> products;
  for (int stripe = 0; stripe < stripes.num_members(); ++stripe) {
    std::vector<int> given, wanted;
    for (int piece = 0; piece < num_data; ++piece) {
      const bool is_lost = losses[size_t(stripes.member_of_piece(stripe, piece))].block;
      (is_lost ? wanted : given).push_back(piece);
    }
    if (wanted.empty()) continue;
    for (int row = 0; row < num_parity; ++row) {
      const MemberLoss& holder = losses[size_t(stripes.member_of_row(stripe, row))];
      if (!holder.rows[size_t(row)]) given.push_back(num_data + row);
    }
    if (int(given.size()) < num_data) {
      return damaged(fmt::format("{} of {} pieces of a stripe are lost, and at most {} may be",
                                 stripes.num_members() - int(given.size()), stripes.num_members(),
                                 num_parity));
    }
    given.resize(size_t(num_data));
    for (const int piece : wanted) {
      const std::vector<uint8_t> coefficients = code.coefficients(given, piece);
      for (size_t i = 0; i < given.size(); ++i) {
        const bool is_parity = given[i] >= num_data;
        const int number = is_parity ? given[i] - num_data : given[i];
        const int member = is_parity ? stripes.member_of_row(stripe, number)
                                     : stripes.member_of_piece(stripe, number);
        products.push_back({.source = {is_parity, member, number},
                            .target = {false, stripes.member_of_piece(stripe, piece), piece},
                            .coefficient = coefficients[i],
                            .is_first = i == 0});
      }
    }
  }
  return products;
}

}  // namespace trireme
