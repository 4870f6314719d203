#include <algorithm>
#include <deque>
#include <utility>

#include "base/check.h"
#include "program/generators.h"

namespace trireme {
namespace {

// One rank of DualPipe or DualPipeV. "Near" is the chunk whose micro-batches enter at this rank's
// end of the pipeline, "far" is the other chunk. The eight steps have the names of the published
// algorithm.
class DualProgram {
 public:
  struct Chunk {
    int index = 0;
    int first_microbatch = 0;
  };

  DualProgram(Program& program, Chunk near, Chunk far) : program_(program), chunks_{near, far} {}

  void append(int p, int r, int m) {
    for (int i = 0; i < 2 * (p - r - 1); ++i) f(0);
    for (int i = 0; i < r + 1; ++i) {
      f(0);
      f(1);
    }
    for (int i = 0; i < p - r - 1; ++i) {
      b(1);
      w();
      f(1);
    }
    for (int i = 0; i < m - 2 * p + r + 1; ++i) {
      if (i == 0 && r == p - 1) {  // not overlapped, because the next rank waits for this forward
        f(0);
        bw(1);
      } else {
        fb(0, 1);
      }
      fb(1, 0);
    }
    for (int i = 0; i < p - r - 1; ++i) {
      bw(1);
      fb(1, 0);
    }
    bool is_split = false;  // the second half delays its W
    for (int i = 0; i < r + 1; ++i) {
      const bool is_half = i == (r + 1) / 2;
      if (is_half && r % 2 == 1) is_split = true;
      is_split ? b(1) : bw(1);
      if (is_half && r % 2 == 0) is_split = true;
      is_split ? b(0) : bw(0);
    }
    for (int i = 0; i < p - r - 1; ++i) {
      w();
      b(0);
    }
    for (int i = 0; i < r + 1; ++i) w();
    TRIREME_CHECK(delayed_.empty(), "a weight gradient was left out");
  }

 private:
  int microbatch(int side, int count) const { return chunks_[side].first_microbatch + count; }

  void f(int side) {
    program_.push_back(forward(chunks_[side].index, microbatch(side, num_f_[side]++)));
  }
  void bw(int side) {
    program_.push_back(backward(chunks_[side].index, microbatch(side, num_b_[side]++)));
  }
  void b(int side) {
    const int k = microbatch(side, num_b_[side]++);
    program_.push_back(backward_input(chunks_[side].index, k));
    delayed_.emplace_back(chunks_[side].index, k);
  }
  void w() {
    const auto [chunk, k] = delayed_.front();
    delayed_.pop_front();
    program_.push_back(backward_weight(chunk, k));
  }
  void fb(int side_f, int side_b) {
    Action pair = forward(chunks_[side_f].index, microbatch(side_f, num_f_[side_f]++));
    pair.kind = ActionKind::FB;
    pair.chunk_b = static_cast<int16_t>(chunks_[side_b].index);
    pair.microbatch_b = microbatch(side_b, num_b_[side_b]++);
    program_.push_back(pair);
  }

  Program& program_;
  Chunk chunks_[2];
  int num_f_[2] = {0, 0};
  int num_b_[2] = {0, 0};
  std::deque<std::pair<int, int>>
      delayed_;  // (chunk, micro-batch) whose W is delayed, oldest first
};

}  // namespace

Schedule make_dualpipe(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule("dualpipe", shape);
  const int p = shape.num_ranks;
  const int half_m = shape.num_microbatches / 2;
  for (int rank = 0; rank < p; ++rank) {
    DualProgram::Chunk near{0, 0};
    DualProgram::Chunk far{1, half_m};
    if (rank >= p / 2) std::swap(near, far);
    DualProgram(schedule.programs[rank], near, far)
        .append(p / 2, std::min(rank, p - 1 - rank), half_m);
  }
  return schedule;
}

Schedule make_dualpipev(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule("dualpipev", shape);
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    DualProgram(schedule.programs[rank], {0, 0}, {1, 0})
        .append(shape.num_ranks, rank, shape.num_microbatches);
  }
  return schedule;
}

}  // namespace trireme
