#pragma once

#include <string>
#include <vector>

#include "comm/group.h"

namespace trireme {

// The memory of a host in which a rank keeps its part of checkpoints.
struct MemoryPlace {
  std::string host;    // its name
  std::string folder;  // in its memory, for all its ranks; "": there is none
  std::string domain;  // hosts with the same one, such as a rack, may be lost together; "": none
};

// Which ranks of a group share a folder in the memory of their host. The first rank of a host acts
// for it.
struct HostPlaces {
  struct Host {
    std::string name;
    std::string domain;
    std::vector<int> ranks;
  };
  std::vector<Host> hosts;  // in the order of their first ranks
  int own = 0;
  bool has_all = false;  // every rank has a folder

  int keeper() const { return hosts[size_t(own)].ranks.front(); }
  std::vector<int> keepers() const;
};

// All ranks call it.
HostPlaces gather_hosts(Group& ranks, const MemoryPlace& place);

}  // namespace trireme
