#include <algorithm>

#include "program/generators.h"

namespace trireme {
namespace {

// Counts the micro-batches of each operation and chunk while it appends them to a program.
class VProgram {
 public:
  VProgram(Program& program, int num_microbatches) : program_(program), m_(num_microbatches) {}

  void f(int chunk) { append(forward(chunk, num_f[chunk]++)); }
  void b(int chunk) { append(backward_input(chunk, num_b[chunk]++)); }
  void w(int chunk) { append(backward_weight(chunk, num_w[chunk]++)); }

  int num_f[2] = {0, 0};
  int num_b[2] = {0, 0};
  int num_w[2] = {0, 0};

 private:
  void append(const Action& action) {
    if (action.microbatch < m_) program_.push_back(action);
  }

  Program& program_;
  int m_;
};

}  // namespace

// ZB-V: two chunks per rank in a V, so the first and the last stage are on one rank. Every rank
// holds 2p activations of a chunk. At least 2p - 1 micro-batches are planned, and the surplus is
// left out.
Schedule make_zb_v(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule("zb_v", shape);
  const int p = shape.num_ranks;
  const int planned = std::max(2 * p - 1, shape.num_microbatches);
  for (int rank = 0; rank < p; ++rank) {
    VProgram program(schedule.programs[rank], shape.num_microbatches);
    for (int i = 0; i < 2 * (p - rank) - 1; ++i) program.f(0);
    for (int i = 0; i < rank; ++i) {
      program.f(1);
      program.f(0);
    }
    for (int i = 0; i < p - rank; ++i) {
      program.f(1);
      program.b(1);
      program.w(1);
    }
    while (program.num_f[1] < program.num_f[0] || program.num_f[0] < planned) {
      if (program.num_f[0] < planned) program.f(0);
      program.b(0);
      program.w(0);
      program.f(1);
      program.b(1);
      program.w(1);
    }
    for (int i = 0; i < rank; ++i) {
      program.b(0);
      program.b(1);
    }
    for (int i = 0; i < p - rank; ++i) {
      program.b(0);
      program.w(0);
    }
    while (program.num_w[1] < program.num_b[1]) program.w(1);
    while (program.num_w[0] < program.num_b[0]) program.w(0);
  }
  return schedule;
}

}  // namespace trireme
