#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint_index.h"
#include "erasure/parity_groups.h"

namespace trireme {

// Which hosts keep a checkpoint in their memory together: each host has the shards of its own ranks
// and parity pieces of the hosts of its group. Every host has this record beside its shards, in
// hosts.json. The blocks of a group are coded lane by lane: lane l of a host is the shard of its
// l-th rank.
struct HostsRecord {
  struct Host {
    std::string name;
    std::string domain;  // its failure domain; "": none
    std::vector<int> ranks;
    bool operator==(const Host&) const = default;
  };
  int64_t step = 0;
  uint64_t job = 0;    // a number of the job that no other job has
  uint64_t epoch = 0;  // of the ranks that have written it
  int own = 0;         // the host that keeps this record
  int num_data = 1;    // of parity_groups
  int num_parity = 0;
  uint64_t index_checksum = 0;  // hash64 of index.json, which is the same on all hosts
  std::vector<Host> hosts;

  int num_lanes() const;
  std::vector<ParityGroup> groups() const;
  // A domain whose loss this checkpoint would not survive, if there is one.
  std::optional<TooLargeDomain> too_large_domain() const;
  ParityGroup group_of(int host) const;
  // The file of a lane, or "" if this host has none.
  std::string shard_of(int host, int lane, const CheckpointIndex& index) const;
  // True if both are of the same save.
  bool is_of_save(const HostsRecord& other) const;
};

inline constexpr const char* kHostsFile = "hosts.json";

std::string print_hosts_record(const HostsRecord& record);
Result<HostsRecord> parse_hosts_record(std::string_view text);

}  // namespace trireme
