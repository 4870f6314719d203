#include "comm/tcp/rendezvous.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace trireme {
namespace {

constexpr int kLookMs = 50;  // for a cancellation

template <typename T>
std::span<std::byte> room_for(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

Error in_rank(const Error& error, int rank) {
  return with_context(error, fmt::format("rank {}", rank));
}

// Ranks share a node if they run on one host and all of them could map each other's memory.
std::vector<int32_t> nodes_of(const std::vector<Introduction>& ranks,
                              const std::vector<uint8_t>& shares) {
  std::vector<int32_t> first_of_node;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    size_t first = rank;
    bool all_share = true;
    for (size_t other = 0; other < ranks.size(); ++other) {
      if (ranks[other].host != ranks[rank].host) continue;
      first = std::min(first, other);
      all_share = all_share && shares[other] != 0;
    }
    first_of_node.push_back(int32_t(all_share ? first : rank));
  }
  return first_of_node;
}

}  // namespace

Result<Rendezvous> Rendezvous::open(const std::string& address, std::string secret, TcpLog log) {
  TRIREME_TRY(listener, listen_at(address));
  return Rendezvous(Reception(std::move(listener), std::move(secret), std::move(log)));
}

Result<std::vector<Socket>> Rendezvous::receive_ranks(uint64_t epoch, int size, Deadline deadline,
                                                      const std::atomic<bool>& is_cancelled) {
  std::vector<Socket> joined(static_cast<size_t>(size));
  int missing = size;
  const auto judge = [&](const Hello& hello) {
    if (hello.epoch != epoch) return Verdict::WrongEpoch;
    if (hello.purpose != Purpose::Join || hello.rank < 0 || hello.rank >= size) {
      return Verdict::WrongRank;
    }
    return joined[size_t(hello.rank)].is_open() ? Verdict::RankTaken : Verdict::Welcome;
  };
  while (missing > 0) {
    const int most_ms = std::min(deadline.left_ms(), kLookMs);
    TRIREME_TRY(visitors, reception_.receive({.epoch = epoch}, judge, most_ms));
    for (Reception::Visitor& visitor : visitors) {
      Socket& place = joined[size_t(visitor.hello.rank)];
      if (place.is_open()) continue;  // two came at the same time; the second sees a closed socket
      place = std::move(visitor.socket);
      --missing;
    }
    if (is_cancelled) return Error{ErrorKind::Runtime, "the start of the ranks was cancelled"};
    if (missing == 0 || deadline.left_ms() > 0) continue;
    std::vector<int> absent;
    for (int rank = 0; rank < size; ++rank) {
      if (!joined[size_t(rank)].is_open()) absent.push_back(rank);
    }
    return Error{ErrorKind::Runtime,
                 fmt::format("{} of {} ranks have not joined at {} in time: {}; look at their "
                             "output; if they start slowly, set run.comm_timeout_s above 20",
                             absent.size(), size, address(), fmt::join(absent, ", "))};
  }
  return joined;
}

Status Rendezvous::gather(uint64_t epoch, int size, Deadline deadline,
                          const std::atomic<bool>& is_cancelled) {
  TRIREME_TRY(joined, receive_ranks(epoch, size, deadline, is_cancelled));
  std::vector<Introduction> ranks;
  for (int rank = 0; rank < size; ++rank) {
    std::array<std::byte, sizeof(Introduction)> bytes;
    const Status received = receive_all(joined[size_t(rank)], bytes, deadline);
    if (!received.ok()) return in_rank(received.error(), rank);
    TRIREME_TRY(introduction, check_introduction(bytes, size));
    introduction.window.rank = rank;
    ranks.push_back(introduction);
  }
  for (const Socket& rank : joined) {
    TRIREME_TRY_DONE(send_all(rank, std::as_bytes(std::span(ranks)), deadline));
  }
  std::vector<uint8_t> shares(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    const Status received =
        receive_all(joined[size_t(rank)], room_for(shares[size_t(rank)]), deadline);
    if (!received.ok()) return in_rank(received.error(), rank);
  }
  const std::vector<int32_t> nodes = nodes_of(ranks, shares);
  for (const Socket& rank : joined) {
    TRIREME_TRY_DONE(send_all(rank, std::as_bytes(std::span(nodes)), deadline));
  }
  return Done{};
}

}  // namespace trireme
