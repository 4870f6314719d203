#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "coord/coord.h"

namespace trireme {

// A Coord in memory for the simulator: calls take effect at the moment `now_s` of its own clock.
class SimulatedCoord {
 public:
  explicit SimulatedCoord(bool compares_versions) : compares_versions_(compares_versions) {}

  Result<CoordReply> call(double now_s, const CoordCall& call) {
    end_leases(now_s);
    CoordReply reply;
    switch (call.kind) {
      case CoordCall::Kind::List:
        for (const auto& [key, entry] : entries_) reply.entries.push_back(entry);
        return reply;
      case CoordCall::Kind::CompareAndSwap:
        return swap(call.write);
      case CoordCall::Kind::Grant:
        reply.lease = ++revision_;
        leases_[reply.lease] = {call.seconds, now_s + call.seconds};
        return reply;
      case CoordCall::Kind::KeepAlive:
        reply.is_done = leases_.contains(call.lease);
        if (reply.is_done) leases_[call.lease].second = now_s + leases_[call.lease].first;
        return reply;
      case CoordCall::Kind::Revoke:
        if (leases_.contains(call.lease)) leases_[call.lease].second = now_s;
        end_leases(now_s);
        return reply;
    }
    return reply;
  }

  // A store that comes back gives every lease its whole length again.
  void renew_all(double now_s) {
    for (auto& [lease, times] : leases_) times.second = now_s + times.first;
  }

 private:
  Result<CoordReply> swap(const CoordWrite& write) {
    const auto found = entries_.find(write.key);
    const int64_t version = found == entries_.end() ? 0 : found->second.version;
    CoordReply reply;
    reply.is_done = !compares_versions_ || version == write.expected_version;
    if (reply.is_done && write.lease != 0 && !leases_.contains(write.lease)) {
      return Error{ErrorKind::Runtime, "the lease has ended"};
    }
    if (reply.is_done && !write.value) entries_.erase(write.key);
    if (reply.is_done && write.value) {
      entries_[write.key] = {write.key, *write.value, ++revision_, write.lease};
    }
    const auto now = entries_.find(write.key);
    reply.entries.push_back(now == entries_.end() ? CoordEntry{.key = write.key} : now->second);
    return reply;
  }

  void end_leases(double now_s) {
    std::erase_if(leases_, [&](const auto& lease) {
      if (lease.second.second > now_s) return false;
      std::erase_if(entries_, [&](const auto& entry) { return entry.second.lease == lease.first; });
      return true;
    });
  }

  const bool compares_versions_;
  int64_t revision_ = 0;
  std::map<std::string, CoordEntry> entries_;
  std::map<LeaseId, std::pair<double, double>> leases_;  // length and end
};

}  // namespace trireme
