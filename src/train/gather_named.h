#pragma once

#include <vector>

#include "base/corruption_alarm.h"
#include "comm/group.h"

namespace trireme {

// The ranks that a check for silent corruption suspects most.
struct NamedRanks {
  int suspicion = 0;  // the greatest of all ranks; 0: nobody is suspected
  std::vector<CorruptionAlarm::NamedRank> ranks;
};

// Gathers how much each rank is suspected, 0 to 9, and its host. All ranks get the same result.
NamedRanks gather_named(Group& ranks, int own_suspicion);

}  // namespace trireme
