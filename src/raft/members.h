#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "raft/log_format.h"

namespace trireme {

struct LogMember {
  ServerId id = 0;
  std::string address;  // HOST:PORT
  friend bool operator==(const LogMember&, const LogMember&) = default;
};

// The servers that vote, sorted by id.
struct LogMembers {
  std::vector<LogMember> servers;

  bool has(ServerId id) const {
    return std::any_of(servers.begin(), servers.end(),
                       [&](const LogMember& member) { return member.id == id; });
  }
  size_t majority() const { return servers.size() / 2 + 1; }
  // Returns "" if the server is not known.
  std::string address_of(ServerId id) const;
  // True if at most one server is added, removed or moved to another address, so that each
  // majority of these members and each majority of the others have a server in common.
  bool is_one_step_from(const LogMembers& other) const;
  friend bool operator==(const LogMembers&, const LogMembers&) = default;
};

std::string encode_members(const LogMembers& members);
Result<LogMembers> decode_members(std::string_view bytes);

}  // namespace trireme
