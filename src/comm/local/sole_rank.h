#pragma once

#include "comm/local/local_backend.h"
#include "comm/world.h"

namespace trireme {

// A world of one rank in the calling thread, for work without peers: generation, measurements,
// tests.
class SoleRank {
 public:
  // If `shown` is not null, the rank shows its progress there, to the ranks of another world.
  explicit SoleRank(Progress* shown = nullptr)
      : host_(1, WorldOptions{}), backend_(host_, 0, shown), world_(backend_, host_.options()) {}
  ~SoleRank() { host_.fabric().leave(0); }
  SoleRank(const SoleRank&) = delete;
  SoleRank& operator=(const SoleRank&) = delete;

  World& world() { return world_; }
  Group& group() { return world_.group(); }

 private:
  LocalHost host_;
  LocalBackend backend_;
  World world_;
};

}  // namespace trireme
