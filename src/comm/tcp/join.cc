// The side of a rank: it joins at the rendezvous and connects with its peers.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <fstream>

#include "comm/tcp/rendezvous.h"

namespace trireme {
namespace {

std::string link_text(const char* path) {
  char text[64];
  const ssize_t length = readlink(path, text, sizeof text);
  return length > 0 ? std::string(text, size_t(length)) : "";
}

// Identifies the running system as this process sees it. Processes in other namespaces count as
// another host, because they do not see each other's processes or addresses.
std::string host_text() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char name[HOST_NAME_MAX + 1] = {};
  gethostname(name, sizeof name - 1);
  // The name comes last, because it may be cut.
  return fmt::format("{} {} {} {}", boot, link_text("/proc/self/ns/pid"),
                     link_text("/proc/self/ns/net"), name);
}

template <size_t N>
void put(const std::string& text, std::array<char, N>& into) {
  into.fill('\0');
  std::memcpy(into.data(), text.data(), std::min(text.size(), N - 1));
}

std::string listening_address(const TcpPlace& place, const Socket& to_rendezvous) {
  if (!place.host.empty()) return place.host + ":0";
  const std::string own = own_address(to_rendezvous);
  return own.substr(0, own.rfind(':')) + ":0";
}

Result<Socket> greet_peer(const TcpPlace& place, int peer, const Introduction& theirs,
                          Deadline deadline) {
  const auto named = [&](const Error& error) {
    return Error{error.kind, fmt::format("rank {} cannot reach rank {} at {}: {}", place.rank, peer,
                                         theirs.address.data(), error.message)};
  };
  Result<Socket> socket = connect_to(theirs.address.data(), deadline);
  if (!socket.ok()) return named(socket.error());
  const Hello mine{.purpose = Purpose::Peer, .rank = place.rank, .epoch = place.epoch};
  const Status greeted = greet(*socket, place.secret, mine, deadline);
  if (!greeted.ok()) return named(greeted.error());
  return socket;
}

}  // namespace

Result<JoinedJob> join_job(const TcpPlace& place, const WindowAddress& window, int64_t inbox,
                           Deadline deadline,
                           const std::function<bool(const std::vector<Introduction>&)>& share) {
  TRIREME_TRY(socket, connect_to(place.rendezvous, deadline));
  TRIREME_TRY_DONE(greet(socket, place.secret,
                         {.purpose = Purpose::Join, .rank = place.rank, .epoch = place.epoch},
                         deadline));
  TRIREME_TRY(listener, listen_at(listening_address(place, socket)));
  Introduction mine{.window = window, .inbox = inbox};
  put(place.node.empty() ? host_text() : place.node + " " + host_text(), mine.host);
  put(own_address(listener), mine.address);
  TRIREME_TRY_DONE(send_all(socket, bytes_of(mine), deadline));
  std::vector<std::byte> bytes(size_t(place.size) * sizeof(Introduction));
  TRIREME_TRY_DONE(receive_all(socket, bytes, deadline));
  TRIREME_TRY(ranks, check_roster(bytes, place.size));
  std::vector<Introduction> on_host;
  for (const Introduction& rank : ranks) {
    if (rank.host == mine.host) on_host.push_back(rank);
  }
  const uint8_t shares = share(on_host) ? 1 : 0;
  TRIREME_TRY_DONE(send_all(socket, bytes_of(shares), deadline));
  bytes.resize(size_t(place.size) * sizeof(int32_t));
  TRIREME_TRY_DONE(receive_all(socket, bytes, deadline));
  TRIREME_TRY(nodes, check_nodes(bytes, place.size));
  return JoinedJob{std::move(listener), std::move(ranks), std::move(nodes)};
}

// Every rank connects to the ranks below it, and is connected to by those above it.
Result<std::vector<Socket>> connect_peers(const TcpPlace& place, JoinedJob job, Deadline deadline) {
  std::vector<Socket> sockets(static_cast<size_t>(place.size));
  const auto is_elsewhere = [&](int rank) {
    return job.first_of_node[size_t(rank)] != job.first_of_node[size_t(place.rank)];
  };
  for (int peer = 0; peer < place.rank; ++peer) {
    if (!is_elsewhere(peer)) continue;
    TRIREME_TRY(socket, greet_peer(place, peer, job.ranks[size_t(peer)], deadline));
    sockets[size_t(peer)] = std::move(socket);
  }
  int missing = 0;
  for (int peer = place.rank + 1; peer < place.size; ++peer) missing += int(is_elsewhere(peer));
  const auto judge = [&](const Hello& hello) {
    if (hello.epoch != place.epoch) return Verdict::WrongEpoch;
    const bool is_awaited = hello.purpose == Purpose::Peer && hello.rank > place.rank &&
                            hello.rank < place.size && is_elsewhere(hello.rank);
    if (!is_awaited) return Verdict::WrongRank;
    return sockets[size_t(hello.rank)].is_open() ? Verdict::RankTaken : Verdict::Welcome;
  };
  Reception reception(std::move(job.listener), place.secret, place.log);
  while (missing > 0) {
    TRIREME_TRY(visitors, reception.receive({.rank = place.rank, .epoch = place.epoch}, judge,
                                            deadline.left_ms()));
    for (Reception::Visitor& visitor : visitors) {
      Socket& socket = sockets[size_t(visitor.hello.rank)];
      if (socket.is_open()) continue;
      socket = std::move(visitor.socket);
      --missing;
    }
    if (missing == 0 || deadline.left_ms() > 0) continue;
    return Error{ErrorKind::Runtime,
                 fmt::format("rank {} was not reached by {} of the ranks above it in time; look "
                             "at their output, and at the network between the hosts",
                             place.rank, missing)};
  }
  return sockets;
}

}  // namespace trireme
