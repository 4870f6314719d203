#include "store/placement.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/hash.h"

namespace trireme {
namespace {

// Rendezvous hashing: the smallest of exponential variates, whose rates are the room, wins as often
// as its share of the room says.
double score_of(uint64_t block, int server, double room) {
  const uint64_t words[] = {block, uint64_t(server)};
  const uint64_t hash = hash64(std::as_bytes(std::span(words)));
  const double uniform = (double(hash >> 11) + 0.5) / 9007199254740992.0;  // 2^53
  return -std::log(uniform) / room;
}

}  // namespace

std::vector<int> servers_for_block(const Overview& overview, const std::vector<bool>& is_usable,
                                   uint64_t block, int64_t chunk_bytes,
                                   const std::vector<int32_t>& held) {
  struct Candidate {
    int server = 0;
    double score = 0;
  };
  std::map<std::string, std::vector<Candidate>> domains;
  std::map<std::string, int> num_taken;
  for (const int32_t server : held) {
    if (server != kNoServer) ++num_taken[overview.servers[size_t(server)].domain];
  }
  size_t num_candidates = 0;
  for (int server = 0; server < int(overview.servers.size()); ++server) {
    const ServerRecord& record = overview.servers[size_t(server)];
    const int64_t used = overview.bytes_of_server[size_t(server)];
    const bool is_limited = record.capacity_bytes > 0;
    const bool has_room = !is_limited || used + chunk_bytes <= record.capacity_bytes;
    const bool fits = is_usable[size_t(server)] && record.state == ServerState::Active &&
                      has_room && std::ranges::count(held, server) == 0;
    if (!fits) continue;
    const double room = is_limited ? double(record.capacity_bytes - used) : 1.0;
    domains[record.domain].push_back({server, score_of(block, server, room)});
    ++num_candidates;
  }
  for (auto& [domain, candidates] : domains) {
    std::ranges::sort(candidates, std::greater(), &Candidate::score);  // the best one is last
  }
  std::vector<int> order;
  while (order.size() < num_candidates) {
    std::vector<Candidate>* best = nullptr;
    int* best_taken = nullptr;
    for (auto& [domain, candidates] : domains) {
      if (candidates.empty()) continue;
      int& taken = num_taken[domain];
      const bool is_better = best == nullptr || taken < *best_taken ||
                             (taken == *best_taken && candidates.back().score < best->back().score);
      if (!is_better) continue;
      best = &candidates;
      best_taken = &taken;
    }
    order.push_back(best->back().server);
    best->pop_back();
    ++*best_taken;
  }
  return order;
}

}  // namespace trireme
