#include <algorithm>

#include "program/generators.h"

namespace trireme {

int interleaved_warmup(const ScheduleShape& shape, int rank) {
  const int p = shape.num_ranks, v = shape.num_chunks;
  return std::min(2 * (p - rank - 1) + (v - 1) * p, shape.num_microbatches * v);
}

// 1F1B over v chunks per rank: micro-batches go in groups of p, each group through all chunks.
Schedule make_interleaved(const ScheduleShape& shape) {
  Schedule schedule = empty_schedule("interleaved", shape);
  const int p = shape.num_ranks;
  const int v = shape.num_chunks;
  const int total = shape.num_microbatches * v;
  const auto chunk_of = [&](int index) { return index % (p * v) / p; };
  const auto microbatch_of = [&](int index) { return index / (p * v) * p + index % p; };
  for (int rank = 0; rank < p; ++rank) {
    Program& program = schedule.programs[rank];
    const int warmup = interleaved_warmup(shape, rank);
    for (int i = 0; i < total + warmup; ++i) {
      if (i < total) program.push_back(forward(chunk_of(i), microbatch_of(i)));
      if (i < warmup) continue;
      program.push_back(backward(v - 1 - chunk_of(i - warmup), microbatch_of(i - warmup)));
    }
  }
  return schedule;
}

}  // namespace trireme
