#include "compile/join_grads.h"

namespace trireme {

void join_directions(Program& program, const RankPlan& rank, int pp) {
  const int mirror = pp - 1 - rank.coords.pp;
  const bool is_lower = rank.coords.pp < mirror;
  for (int chunk : {is_lower ? 0 : 1, is_lower ? 1 : 0}) {
    program.push_back({.kind = ActionKind::JoinDirections,
                       .chunk = int16_t(chunk),
                       .microbatch = -1,
                       .peer = int16_t(mirror)});
  }
}

void join_tied_table(Program& program, const RunPlan& plan, const RankPlan& rank) {
  if (!plan.model.trains_tied_table() || num_stages(plan.schedule) == 1) return;
  const int last = num_stages(plan.schedule) - 1;
  const auto rank_of = [&](int stage) {
    for (const ChunkPlace& place : rank.places) {
      if (place.stage == stage) return rank.coords.pp;
    }
    for (int r = 0; r < plan.schedule.num_ranks; ++r) {
      for (int c = 0; c < plan.schedule.num_chunks; ++c) {
        if (stage_of(plan.schedule, r, c) == stage) return r;
      }
    }
    return -1;
  };
  const int first_rank = rank_of(0);
  const int last_rank = rank_of(last);
  for (size_t c = 0; c < rank.places.size(); ++c) {
    const int stage = rank.places[c].stage;
    const bool is_local_second = stage == last && first_rank == last_rank;
    if ((stage != 0 && stage != last) || is_local_second) continue;
    program.push_back({.kind = ActionKind::JoinTiedTable,
                       .chunk = int16_t(c),
                       .microbatch = -1,
                       .peer = int16_t(stage == 0 ? last_rank : first_rank)});
  }
}

}  // namespace trireme
