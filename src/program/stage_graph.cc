#include "program/stage_graph.h"

namespace trireme {

StageGraph::StageGraph(const Schedule& schedule)
    : num_chunks_(schedule.num_chunks), num_stages_(trireme::num_stages(schedule)) {
  const int p = schedule.num_ranks;
  const bool two_directions = schedule.placement == StagePlacement::Bidir;
  const int directions = two_directions ? schedule.num_chunks : 1;
  std::vector<StagePlace> places(static_cast<size_t>(directions) * num_stages_);
  const auto place = [&](int direction, int stage) -> StagePlace {
    if (stage < 0 || stage >= num_stages_) return {};
    return places[static_cast<size_t>(direction) * num_stages_ + stage];
  };
  stages_.resize(static_cast<size_t>(p) * num_chunks_);
  for (int rank = 0; rank < p; ++rank) {
    for (int chunk = 0; chunk < num_chunks_; ++chunk) {
      const int stage = stage_of(schedule, rank, chunk);
      stages_[index(rank, chunk)] = stage;
      const int direction = two_directions ? chunk : 0;
      places[static_cast<size_t>(direction) * num_stages_ + stage] = {rank, chunk};
    }
  }
  next_.resize(stages_.size());
  previous_.resize(stages_.size());
  for (int rank = 0; rank < p; ++rank) {
    for (int chunk = 0; chunk < num_chunks_; ++chunk) {
      const int direction = two_directions ? chunk : 0;
      next_[index(rank, chunk)] = place(direction, stage(rank, chunk) + 1);
      previous_[index(rank, chunk)] = place(direction, stage(rank, chunk) - 1);
    }
  }
}

MicrobatchRange microbatches_of(const Schedule& schedule, int chunk) {
  const int m = schedule.num_microbatches;
  if (schedule.placement != StagePlacement::Bidir) return {0, m};
  const int half = m / 2;
  return chunk == 0 ? MicrobatchRange{0, half} : MicrobatchRange{half, m - half};
}

}  // namespace trireme
