#pragma once

#include <vector>

#include "schema/program.h"

namespace trireme {

// A chunk of a rank: one stage in one direction.
struct StagePlace {
  int rank = -1;
  int chunk = -1;

  bool exists() const { return rank >= 0; }
  friend bool operator==(const StagePlace&, const StagePlace&) = default;
};

// Says which rank holds which stage and what its neighbours are, for the placement of a schedule.
class StageGraph {
 public:
  explicit StageGraph(const Schedule& schedule);

  int num_stages() const { return num_stages_; }
  int stage(int rank, int chunk) const { return stages_[index(rank, chunk)]; }
  // The chunk that receives this chunk's activations and sends its gradients. It does not exist on
  // the last stage.
  StagePlace next(int rank, int chunk) const { return next_[index(rank, chunk)]; }
  // The chunk that sends this chunk its activations and receives its gradients. It does not exist
  // on the first stage.
  StagePlace previous(int rank, int chunk) const { return previous_[index(rank, chunk)]; }

 private:
  size_t index(int rank, int chunk) const {
    return static_cast<size_t>(rank) * static_cast<size_t>(num_chunks_) +
           static_cast<size_t>(chunk);
  }

  int num_chunks_;
  int num_stages_;
  std::vector<int> stages_;           // [rank, chunk]
  std::vector<StagePlace> next_;      // [rank, chunk]
  std::vector<StagePlace> previous_;  // [rank, chunk]
};

// The micro-batches of a chunk, [first, first + count): all of them, or half of them if two
// directions share them (DualPipe).
struct MicrobatchRange {
  int first = 0;
  int count = 0;

  bool contains(int microbatch) const { return microbatch >= first && microbatch < first + count; }
};
MicrobatchRange microbatches_of(const Schedule& schedule, int chunk);

}  // namespace trireme
