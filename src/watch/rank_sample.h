#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "watch/progress_page.h"

namespace trireme {

struct RankPages;

// A page as it was at one moment. Words of a page are read one by one, so two of them may be of
// different moments; a verdict therefore needs several samples that agree.
struct RankSample {
  uint64_t beats = 0;
  uint64_t epoch = 0;
  int rank = -1;
  int stage = 0;
  RankPhase phase = RankPhase::Start;
  int collective = 0;
  int64_t phase_ns = 0;
  int64_t step = 0;
  int64_t step_ns = 0;
  int64_t first_sample = 0;
  int64_t num_samples = 0;
  int64_t action = -1;
  int64_t steps = 0;
  int64_t took_ns = 0;
  int64_t computed_ns = 0;
  int64_t nonfinite_steps = 0;
  uint64_t calls = 0;
  int64_t bytes = 0;
  int64_t wait_ns = 0;
  uint64_t wait_sequence = 0;
  int wait_group = 0;
  int wait_peer = -1;
  int64_t file_limit_ns = 0;
  int64_t wait_limit_ns = 0;
  std::array<uint64_t, kShownGroups> issued = {};
  // What the program calls the action, cut off if it is long, and then zeros.
  std::array<char, 96> action_code = {};

  bool waits() const { return wait_ns != 0; }
  std::string action_text() const { return action_code.data(); }  // "": unknown
  static RankSample of(const ProgressPage& page);                 // without action_code
  static RankSample of(const RankPages& pages);
};

}  // namespace trireme
