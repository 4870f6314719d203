#pragma once

#include <cstdint>
#include <span>

#include "collectives/collective.h"
#include "compile/run_plan.h"
#include "predict/collective_bytes.h"

namespace trireme {

// A collective in which one rank takes part.
struct RankCollective {
  Collective collective = Collective::AllReduce;
  GroupPlace group = {};                 // the ranks that take part
  int rank = 0;                          // in the group
  int64_t count = 0;                     // as in PlanRequest
  std::span<const int64_t> counts = {};  // as in PlanRequest
  DType dtype = DType::F32;
  // True if a sum must join its addends in the canonical binary tree over the ranks.
  bool canonical = false;
};

// Returns the bytes that this rank sends. In a group of one rank it sends nothing.
int64_t sent_by_rank(const RankCollective& asked, CollectiveBytes& collective_bytes);

// One rank, the groups of the mesh of which it is a member, and what it sends in their collectives.
// The arguments must live as long as this.
class RankGroups {
 public:
  RankGroups(const Mesh& mesh, const RankPlan& rank, CollectiveBytes& collective_bytes)
      : mesh_(mesh), rank_(rank), collective_bytes_(collective_bytes) {}

  const Mesh& mesh() const { return mesh_; }
  const RankPlan& rank() const { return rank_; }
  const NodeMap& nodes() const { return collective_bytes_.nodes(); }

  // Returns `count` ranks of this rank's line along an axis, `step` coordinates apart: those of its
  // block of count * step coordinates.
  GroupPlace along(MeshAxis axis, int count, int step = 1) const;
  // Returns the ranks that share the experts with this rank (ep).
  GroupPlace of_experts() const;

  int64_t sent(const RankCollective& asked) const { return sent_by_rank(asked, collective_bytes_); }

 private:
  const Mesh& mesh_;
  const RankPlan& rank_;
  CollectiveBytes& collective_bytes_;
};

}  // namespace trireme
