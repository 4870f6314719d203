#pragma once

#include <cstdint>

namespace trireme {

// The epochs of ranks count on whenever ranks have failed. On several hosts, every membership
// (docs/membership.md) has a thousand numbers of its own, so that no two leaders ever use the same
// number, and a later membership has higher ones. A job on one host has no memberships; its ranks
// count from 1 without a limit.
inline constexpr uint64_t kEpochsOfMembership = 1000;

// The first epoch of the ranks in a membership, which are numbered from 1.
inline uint64_t first_rank_epoch(int64_t membership) {
  return uint64_t(membership - 1) * kEpochsOfMembership + 1;
}
inline int64_t membership_of(uint64_t rank_epoch) {
  return static_cast<int64_t>(rank_epoch / kEpochsOfMembership) + 1;
}

}  // namespace trireme
