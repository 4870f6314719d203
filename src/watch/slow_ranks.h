#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "watch/rank_sample.h"

namespace trireme {

// A rank that computes longer than the others of its stage.
struct SlowRank {
  int rank = -1;
  double ratio = 1.0;  // of its time to the median of the stage
};

// Finds ranks whose compute time, without waits, is more than 1.3 times the median of the ranks of
// their stage in at least 20 steps and 4 s. To keep one long pause from making a rank slow, these
// steps have four pieces, and the rank must be slow in each. Every rank is reported once in an
// epoch.
class SlowRanks {
 public:
  static constexpr double kRatio = 1.3;
  static constexpr int64_t kPieceSteps = 5;
  static constexpr int64_t kPieceNs = 1'000'000'000;
  static constexpr int kPieces = 4;

  // Takes the newest samples of all ranks of this host. Returns those that have become slow.
  std::vector<SlowRank> look(std::span<const RankSample> samples);

 private:
  struct Seen {
    int64_t steps = 0;
    int64_t computed_ns = 0;
    int64_t step_ns = 0;  // when the last step began
    int slow_pieces = 0;  // in a row
    bool is_reported = false;
  };
  void begin_epoch(uint64_t epoch);

  uint64_t epoch_ = 0;
  std::map<int, Seen> seen_;  // by rank
};

}  // namespace trireme
