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
  int index = 0;  // of this rank among those of its place
  Mesh mesh = {};

  // Returns the number by which the rank calls micro-batch `of_lane` of its lane `lane`, and the
  // reverse.
  int microbatch(int of_lane, int lane) const {
    return is_strided ? of_lane * count + lane : lane * num_microbatches + of_lane;
  }
  int lane_of(int microbatch) const {
    return is_strided ? microbatch % count : microbatch / num_microbatches;
  }
  int in_lane(int microbatch) const {
    return is_strided ? microbatch / count : microbatch % num_microbatches;
  }
  // Returns which lane of the pipeline the rank's lane is.
  int of_pipeline(int lane) const {
    return is_strided ? lane * (mesh.dp / count) + index : index * count + lane;
  }
  // Returns the other end of a transfer with this tp index there, as a rank of the group along pp.
  int peer_of(const Action& transfer, int tp) const;
};

// Returns the lanes of the rank at these coordinates.
Lanes lanes_of(const Mesh& mesh, const MeshCoords& coords, int num_microbatches, bool is_strided);

// Makes of a program for one lane, with transfers, the program for all lanes of a rank. A
// computation and the sends of its result stay together, lane by lane.
Program spread_lanes(const Program& program, const Lanes& lanes);

}  // namespace trireme
