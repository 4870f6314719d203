#include "compile/compile_rank.h"

#include <algorithm>
#include <bit>

#include "compile/join_grads.h"
#include "memory/offload_pieces.h"
#include "program/data_parallel.h"
#include "program/offload.h"
#include "program/pairs.h"
#include "program/stage_graph.h"
#include "schema/degree_rules.h"
#include "schema/norm_chunk.h"
#include "schema/workspace.h"

namespace trireme {
namespace {

ZeroShape zero_of(const ParallelConfig& parallel, const Mesh& mesh, const MeshCoords& coords) {
  const int level = zero_level(parallel), dp = mesh.dp_at(coords.pp);
  if (level == 0 || (dp == 1 && mesh.is_uneven())) return {};
  const bool has_servers = parallel.sync == GradSync::ParameterServer;
  const int degree = parallel.hsdp_shard > 0 ? std::min(parallel.hsdp_shard, dp) : dp;
  const int servers = has_servers ? std::min(parallel.servers, dp) : 0;
  return {level, degree, coords.dp % degree, servers};
}

// ZeRO shards of experts. Only every `stride`-th rank holds the same experts. If ZeRO's group has
// several of these they share the shards, else each keeps its experts whole.
ZeroShape expert_zero_of(const ZeroShape& zero, int stride, const MeshCoords& coords) {
  const int degree = zero.degree % stride == 0 ? zero.degree / stride : 1;
  return {zero.level, degree, coords.dp / stride % degree, zero.servers};
}

// If dp is a power of two, the micro-batches of one direction of all ranks form a node of the
// canonical tree. Else the micro-batches of both directions of one rank do, and must be joined
// first.
bool joins_directions_first(const RunPlan& plan) {
  return has_two_directions(plan.schedule) && plan.mode == AccumulateMode::Layout &&
         !std::has_single_bit(uint64_t(plan.mesh.dp));
}

// Every lane evaluates one micro-batch.
Program forward_only(const RankPlan& rank, const Schedule& schedule, int pp) {
  const StageGraph graph(schedule);
  Program program;
  const size_t num_chunks = has_two_directions(schedule) ? 1 : rank.chunks.size();
  for (size_t c = 0; c < num_chunks; ++c) {
    const auto transfer = [&](ActionKind kind, StagePlace other) {
      if (!other.exists() || other.rank == pp) return;
      program.push_back({.kind = kind, .chunk = int16_t(c), .peer = int16_t(other.rank)});
    };
    transfer(ActionKind::RecvActivation, graph.previous(pp, int(c)));
    program.push_back({.kind = ActionKind::F, .chunk = int16_t(c)});
    transfer(ActionKind::SendActivation, graph.next(pp, int(c)));
  }
  return spread_lanes(program, rank.lanes);
}

// Decides which parts of the gradient norm this rank counts and writes to checkpoints. A part that
// several ranks hold is counted once.
void place_norm(RankPlan& rank, const RunPlan& plan) {
  const NormChunks& norm_chunks = *plan.norm_chunks;
  const bool is_exact = plan.shape.slices > 0;  // norm chunks depend on tp
  rank.norm_sum = is_exact ? NormSum::Exact : NormSum::Chunks;
  rank.num_norm_words = is_exact ? kExactNormWords : norm_chunks.total();
  const auto [counts_rest, counts_experts] = counted_parts(rank, plan.mesh);
  rank.snapshot_bytes = 0;
  const size_t num_chunks = has_two_directions(plan.schedule) ? 1 : rank.chunks.size();
  for (size_t c = 0; c < num_chunks; ++c) {
    ChunkTables& chunk = rank.chunks[c];
    for (OwnedParam& owned : chunk.owned) {
      const bool is_second_holder = owned.name == "embedding.tokens" && !chunk.stage.has_embedding;
      if (is_second_holder || !(owned.is_of_expert ? counts_experts : counts_rest)) continue;
      // A tp rank whose part a lower one holds too has a buffer for it all the same, so that the
      // tp ranks of a stage stay in one class.
      if (plan.takes_snapshots) rank.snapshot_bytes += checkpoint_bytes(chunk, owned);
      const int64_t first = norm_chunks.first(owned.name, rank.coords.tp);
      if (first < 0) continue;
      owned.norm_word = is_exact ? 0 : first + owned.first / kNormChunk;
    }
  }
}

void cut_pieces(RankPlan& rank, const MemoryConfig& memory) {
  if (memory.offload == OffloadChoice::None) return;
  for (ChunkTables& chunk : rank.chunks) {
    chunk.pieces = offload_pieces(chunk, memory.offload_buffer_bytes);
  }
}

}  // namespace

void move_to(RankPlan& rank, int position, const RunPlan& plan) {
  rank.position = position;
  rank.coords = coords_of(plan.mesh, position);
  rank.shape = plan.shape_at(rank.coords.pp);
  rank.shape.tp_rank = rank.coords.tp;
  rank.shape.cp_rank = rank.coords.cp;
  rank.shape.ep_rank = rank.coords.ep;
  const ParallelConfig& parallel = plan.config.parallel;
  rank.lanes = lanes_of(plan.mesh, rank.coords, plan.schedule, zero_level(parallel) >= 2);
  rank.zero = zero_of(parallel, plan.mesh, rank.coords);
  rank.expert_zero = expert_zero_of(rank.zero, plan.mesh.ep_dp(), rank.coords);
}

CountedParts counted_parts(const RankPlan& rank, const Mesh& mesh) {
  const auto counts = [&](const ZeroShape& zero, int cp_holder, int dp_holder) {
    return cp_holder == 0 && dp_holder == (zero.level == 0 ? 0 : zero.index);
  };
  return {counts(rank.zero, rank.coords.cp, rank.coords.dp),
          counts(rank.expert_zero, rank.coords.cp / mesh.ep_cp(), rank.coords.dp / mesh.ep_dp())};
}

RankPlan outline_rank(const RunPlan& plan, int position) {
  const StageGraph graph(plan.schedule);
  RankPlan rank;
  move_to(rank, position, plan);
  const int pp = rank.coords.pp;
  const auto chunk_here = [&](StagePlace place) { return place.rank == pp ? place.chunk : -1; };
  for (int c = 0; c < plan.schedule.num_chunks; ++c) {
    const int stage = graph.stage(pp, c);
    rank.places.push_back(
        {stage, chunk_here(graph.previous(pp, c)), chunk_here(graph.next(pp, c))});
    rank.chunks.push_back({.stage = plan.stages[size_t(stage)]});
  }
  return rank;
}

RankPlan stored_rank(const RunPlan& plan, int position, PlanParts* parts) {
  RankPlan rank = outline_rank(plan, position);
  PlanParts own;
  for (ChunkTables& chunk : rank.chunks) {
    chunk =
        chunk_tables((parts ? *parts : own).uncut(plan, chunk.stage, rank.shape), rank.shape,
                     rank.zero, rank.expert_zero, plan.config.memory.offload == OffloadChoice::All);
  }
  cut_pieces(rank, plan.config.memory);
  rank.joins_directions_first = joins_directions_first(plan);
  return rank;
}

void move_along_dp(RankPlan& rank, int dp, const RunPlan& plan) {
  MeshCoords coords = rank.coords;
  coords.dp = dp;
  move_to(rank, position_of(plan.mesh, coords), plan);
  for (ChunkTables& chunk : rank.chunks) {
    cut_shards(chunk, rank.shape, rank.zero, rank.expert_zero);
  }
  cut_pieces(rank, plan.config.memory);
}

RankPlan compile_rank(const RunPlan& plan, int position, PlanParts* parts) {
  const ParallelConfig& parallel = plan.config.parallel;
  RankPlan rank = stored_rank(plan, position, parts);
  const int m = int(plan.num_microbatches) * rank.lanes.count;
  rank.num_expert_loads =
      plan.model.has_experts() ? plan.model.num_blocks() * (plan.model.experts + 1) : 0;
  rank.num_router_losses = plan.model.has_experts() ? plan.model.num_blocks() * 2 : 0;
  rank.has_ahead_losses = plan.model.mtp_depth > 0;
  if (rank.shape.reports_logits) rank.logits = {plan.model.num_blocks(), plan.model.heads};
  rank.num_unit_slots = parallel.prefetch + 1;
  place_norm(rank, plan);

  rank.microbatches =
      microbatches_of(rank, plan.schedule, plan.mesh.dp_at(rank.coords.pp), rank.coords.dp);
  const MicrobatchMap summed =
      rank.zero.shards_grads() ? MicrobatchMap::contiguous(m) : rank.microbatches;
  const DataParallelShape shape = data_parallel_shape(rank);
  const Program& of_lane = plan.schedule.programs[size_t(rank.coords.pp)];
  rank.program =
      accumulate(spread_lanes(of_lane, rank.lanes), plan.schedule.num_chunks, plan.mode, summed)
          .program;
  if (rank.joins_directions_first) {
    join_directions(rank.program, rank, parallel.pp);
    append_reduce_grad(rank.program, shape);
  } else {
    if (!rank.microbatches.is_whole()) rank.program = add_reduce_grad(rank.program, shape);
    if (has_two_directions(plan.schedule)) join_directions(rank.program, rank, parallel.pp);
  }
  join_tied_table(rank.program, plan, rank);
  append_step(rank.program);
  rank.post_validates = plan.config.optim.post_validate;
  if (rank.post_validates) append_validate(rank.program);
  rank.program = add_offload(rank.program, shape.num_pieces);
  rank.program = add_unshard(rank.program, shape);
  part_broken_pairs(rank.program);
  rank.eval_program = add_unshard(forward_only(rank, plan.schedule, rank.coords.pp), shape);
  return rank;
}

void plan_rank_memory(RankPlan& rank, const RunPlan& plan) {
  MemoryNeeds needs;
  for (size_t c = 0; c < rank.chunks.size(); ++c) {
    needs.chunks.push_back(
        {&rank.chunks[c], rank.places[c].previous_chunk, rank.places[c].next_chunk});
  }
  needs.workspace_bytes = plan.num_threads * kWorkspaceBytesPerThread;
  for (const ChunkTables& chunk : rank.chunks) {
    for (const std::string& name : {std::string(kStageOutput), stage_input_name(chunk.stage)}) {
      needs.message_bytes = std::max(needs.message_bytes, chunk.tables.saved.at(name).bytes());
    }
  }
  const int exchanges = rank.num_ahead > 0 ? 2 : 1;  // buffers for two steps
  needs.exchange_bytes = exchanges * exchange_bytes(rank);
  needs.num_ahead = rank.num_ahead;
  needs.num_unit_slots = rank.num_unit_slots;
  needs.snapshot_bytes = rank.snapshot_bytes;
  if (wants_memory_checkpoints(plan.config)) needs.move_bytes = kMoveBufferBytes;
  rank.memory = plan_memory(rank.program, rank.eval_program, needs);
}

RankPlan rank_plan(const RunPlan& plan, int position, PlanParts* parts) {
  RankPlan rank = compile_rank(plan, position, parts);
  rank.num_ahead = plan.pipeline[size_t(rank.coords.pp)].num_ahead;
  plan_rank_memory(rank, plan);
  return rank;
}

std::vector<RankPlan> rank_plans(const RunPlan& plan) {
  std::vector<RankPlan> ranks;
  for (int position = 0; position < plan.mesh.size(); ++position) {
    ranks.push_back(rank_plan(plan, position));
  }
  return ranks;
}

}  // namespace trireme
