#include "program/lanes.h"

namespace trireme {
namespace {

bool is_of_lane(const Action& action) { return computes(action.kind) || is_transfer(action.kind); }

bool sends_result_of(const Action& action, const Action& computed) {
  const bool sends =
      action.kind == ActionKind::SendActivation || action.kind == ActionKind::SendGrad;
  return sends && computes(computed.kind) && action.chunk == computed.chunk &&
         action.microbatch == computed.microbatch;
}

}  // namespace

int Lanes::peer_of(const Action& transfer, int tp) const {
  const int lane = of_pipeline(lane_of(transfer.microbatch));
  const int ranks = mesh.dp_at(transfer.peer);
  const int dp = is_strided ? lane % ranks : lane / mesh.lanes_at(transfer.peer);
  return rank_along_pp(mesh, {.tp = tp, .pp = transfer.peer, .dp = dp});
}

Lanes lanes_of(const Mesh& mesh, const MeshCoords& coords, const Schedule& schedule,
               bool is_strided) {
  return {.count = mesh.lanes_at(coords.pp),
          .num_microbatches = schedule.num_microbatches,
          .is_strided = is_strided,
          .num_directions = schedule.placement == StagePlacement::Bidir ? 2 : 1,
          .index = coords.dp,
          .mesh = mesh};
}

Program spread_lanes(const Program& program, const Lanes& lanes) {
  if (lanes.count == 1) return program;
  Program result;
  for (size_t begin = 0; begin < program.size();) {
    if (!is_of_lane(program[begin])) {
      result.push_back(program[begin++]);
      continue;
    }
    size_t end = begin + 1;
    const bool is_pair = program[begin].beside == Beside::Next;
    if (is_pair || (end < program.size() && sends_result_of(program[end], program[begin]))) ++end;
    for (int lane = 0; lane < lanes.count; ++lane) {
      for (size_t i = begin; i < end; ++i) {
        result.push_back(program[i]);
        result.back().microbatch = lanes.microbatch(program[i].microbatch, lane);
      }
    }
    begin = end;
  }
  return result;
}

}  // namespace trireme
