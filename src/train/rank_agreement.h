#pragma once

#include <span>
#include <string>
#include <vector>

#include "train/save_schedule.h"

namespace trireme {

// What a rank tells all others about once a second.
struct RankWord {
  int stage = 0;                                // of the pipeline
  double compute_s = 0.0;                       // of a step, on average since its last word
  double exposed_comm_s = 0.0, bubble_s = 0.0;  // likewise
  int64_t peak_bytes = 0;                       // largest use of planned memory so far
  SaveIntervals intervals;                      // only those of the first rank count
};
std::string text_of(const RankWord& word);
// Reads what text_of() has written.
RankWord rank_word_in(const std::string& text);

// How much longer the slowest rank computes in a step than the ranks of its stage on average: the
// others wait for it. Ranks of other stages have other work.
double straggler_excess_s(std::span<const RankWord> words);

}  // namespace trireme
