#pragma once

#include <memory>
#include <string>

#include "agent/agent_wire.h"
#include "base/result.h"
#include "coord/coord.h"

namespace trireme {

// Keys of a job in its Coord, beside those of the membership.
inline constexpr const char* kJobKey = "job";  // JobTerms::job of the launch that uses the Coord
inline constexpr const char* kEndKey = "end";  // RanksEnd, once the job is over

// Takes the Coord for a new launch: its epochs count on from those of earlier launches, and nothing
// else is left of them. Returns an error if agents of another launch still use it, after their
// leases have had time to end.
Status take_coord(Coord& coord, const JobTerms& terms);

// Says why an agent of this job must end, if the keys of the Coord tell it: the job is over, or
// another launch has taken the Coord. Returns nullopt if the job continues.
std::optional<Result<RanksEnd>> end_in(const std::vector<CoordEntry>& entries,
                                       const JobTerms& terms);

}  // namespace trireme
