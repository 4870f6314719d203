#include "program/replay.h"

#include <fmt/format.h>

namespace trireme {

std::string describe_stuck(const Schedule& schedule, const Replayed& replayed) {
  constexpr int kShown = 8;
  std::string text;
  int num_stuck = 0;
  for (int rank = 0; rank < schedule.num_ranks; ++rank) {
    const size_t position = replayed.position[rank];
    if (position == schedule.programs[rank].size()) continue;
    if (++num_stuck > kShown) continue;
    text +=
        fmt::format("{}rank {} waits at position {} ({})", text.empty() ? "" : ", ", rank, position,
                    to_string(schedule.programs[rank][position], schedule.num_chunks));
  }
  if (num_stuck > kShown) text += fmt::format(" and {} more ranks", num_stuck - kShown);
  return text;
}

Replayed replay(const Schedule& schedule, const StageGraph& graph, TransferRule rule) {
  struct {
    void action(int, size_t) {}
    void transfer(int, size_t, int, size_t) {}
  } nobody;
  return Replay(schedule, graph, rule, nobody).run();
}

}  // namespace trireme
