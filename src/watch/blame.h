#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "watch/rank_sample.h"

namespace trireme {

// A rank of this host, and how long it has shown no progress.
struct WatchedRank {
  RankSample sample;
  int64_t silent_ns = 0;
  int64_t budget_ns = 0;  // it may be silent for so long if others wait for it
  int64_t most_ns = 0;    // and for so long in any case
  bool is_stopped = false;
};

// A rank process as the agent of its host sees it.
struct WatchedProcess {
  int64_t process = 0;  // number of the process in the job
  WatchedRank rank;
};

struct Blame {
  size_t index = 0;  // in the span of ranks
  int rank = -1;
  int num_waiting = 0;  // ranks of this host that wait for it, directly or through others
  std::string why;      // "is stopped (SIGSTOP)", "computes or hangs in step 12, action 3 ..."
};

// Names the rank that holds up the others, or nullopt if none is silent for longer than it may be.
// Ranks wait for a peer, which may wait for another one; the last one of such a chain, which does
// not wait, holds up all of them. If there are several, the one that is behind, with the lowest
// (step, call), is blamed. A rank whose awaited call the others have left behind does not count as
// waiting. Ranks that begin an epoch, or wait for the next one, also wait for a stopped rank.
std::optional<Blame> find_blamed(std::span<const WatchedRank> ranks);

// "in step 12, action 3 F1 (F forward, 3 micro-batch 3), call 240": where a rank is, for people.
std::string place_text(const RankSample& sample);

}  // namespace trireme
