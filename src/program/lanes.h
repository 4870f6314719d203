#pragma once

#include <vector>

#include "schema/mesh.h"
#include "schema/program.h"

namespace trireme {

// The lanes of one rank. The batch of a step is split into Mesh::dp lanes with equally many
// micro-batches. Usually every rank of dp has one lane. At a place of the pipeline with fewer ranks
// (Mesh::places) each has several: an action of the schedule then stands for one action of every
// lane, and a message crosses between the ranks that have its lane on their places.
struct Lanes {
  int count = 1;             // of this rank
  int num_microbatches = 1;  // of a lane in a step
  // False: rank r has lanes r * count, r * count + 1, ..., one after the other. True: it has lanes
  // r, r + ranks, ..., and takes their micro-batches in turns, so that the micro-batches that the
  // ranks of a place have at the same time are neighbours in the step (ZeRO 2 and 3).
  bool is_strided = false;
  // 2: the micro-batches of a lane have two directions (DualPipe), the lower half of them and the
  // upper one. The rank numbers those of one direction of all its lanes before those of the other.
  int num_directions = 1;
  int index = 0;  // of this rank among those of its place
  Mesh mesh = {};

  // Returns the number by which the rank calls micro-batch `of_lane` of its lane `lane`, and the
  // reverse.
  int microbatch(int of_lane, int lane) const {
    if (is_strided) return of_lane * count + lane;
    const int direction = of_lane / of_direction();
    return (direction * count + lane) * of_direction() + of_lane % of_direction();
  }
  int lane_of(int microbatch) const {
    return (is_strided ? microbatch : microbatch / of_direction()) % count;
  }
  int in_lane(int microbatch) const {
    if (is_strided) return microbatch / count;
    const int direction = microbatch / (count * of_direction());
    return direction * of_direction() + microbatch % of_direction();
  }
  // Returns which lane of the pipeline the rank's lane is.
  int of_pipeline(int lane) const {
    return is_strided ? lane * (mesh.dp / count) + index : index * count + lane;
  }
  // Returns the other end of a transfer with this tp index there, as a rank of the group along pp.
  int peer_of(const Action& transfer, int tp) const;

 private:
  int of_direction() const { return num_microbatches / num_directions; }
};

// Returns the lanes of the rank at these coordinates. The pipeline and num_microbatches are those
// of `schedule`.
Lanes lanes_of(const Mesh& mesh, const MeshCoords& coords, const Schedule& schedule,
               bool is_strided);

// Makes of a program for one lane, with transfers, the program for all lanes of a rank. A
// computation and the sends of its result stay together, lane by lane, as do the two actions of a
// pair (Beside), whose sends follow the pairs of all lanes.
Program spread_lanes(const Program& program, const Lanes& lanes);

}  // namespace trireme
