#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace trireme {

// The members of a group. Groups with the same id have no member in common.
struct GroupShape {
  int id = 0;
  std::string name;          // "world", "dp", ...
  std::vector<int> members;  // world ranks, in the order of their ranks in the group
  int rank = 0;              // of this rank within the group

  int size() const { return static_cast<int>(members.size()); }
};

}  // namespace trireme
