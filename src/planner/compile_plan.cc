#include "planner/compile_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "device/stream.h"
#include "planner/join_grads.h"
#include "planner/price_schedule.h"
#include "planner/shape_for_mesh.h"
#include "planner/stage_cost.h"
#include "program/check_ranks.h"
#include "program/data_parallel.h"
#include "program/lookahead.h"
#include "program/offload.h"
#include "program/stage_graph.h"
#include "spec/norm_chunk.h"
#include "spec/offload_pieces.h"
#include "spec/stage_flow.h"

namespace trireme {
namespace {

ZeroShape zero_of(const ParallelConfig& parallel, const MeshCoords& coords) {
  // Servers hold what ZeRO would share out: a push is a reduction to them, a pull a gather.
  const bool has_servers = parallel.sync == "parameter_server";
  const int level = has_servers ? std::max(parallel.zero, 1) : parallel.zero;
  if (parallel.dp == 1 || level == 0) return {};
  const int degree = parallel.hsdp_shard > 0 ? parallel.hsdp_shard : parallel.dp;
  return {level, degree, coords.dp % degree, has_servers ? parallel.servers : 0};
}

// The same for experts, which every `stride`-th of these ranks holds: of a copy's ranks those that
// do, and each one alone where no two of them do.
ZeroShape expert_zero_of(const ZeroShape& zero, int stride, const MeshCoords& coords) {
  if (zero.level == 0 || stride == 1) return zero;
  const int degree = zero.degree % stride == 0 ? zero.degree / stride : 1;
  return {zero.level, degree, coords.dp / stride % degree};
}

// Whether every stage stands on two ranks, one for each direction (DualPipe).
bool has_two_directions(const Schedule& schedule) {
  return schedule.placement == StagePlacement::Bidir;
}

// Sums that are joined across ranks must stand at nodes of the canonical tree.
Status check_layout_tree(const RunPlan& plan) {
  const int dp = plan.config.parallel.dp;
  const bool has_halves = has_two_directions(plan.schedule);
  if (plan.mode != AccumulateMode::Layout || (dp == 1 && !has_halves)) return Done{};
  const bool reduces_leaves = plan.config.parallel.zero >= 2 && dp > 1;
  const auto is_power = [](int64_t n) { return std::has_single_bit(uint64_t(n)); };
  if (reduces_leaves && !is_power(dp)) {
    return infeasible(fmt::format(
        "run.reproducible = \"{}\" with parallel.zero = {} sums along a binary "
        "tree: parallel.dp = {} must be a power of two; try {}, or \"fixed\"",
        plan.config.run.reproducible, plan.config.parallel.zero, dp, std::bit_floor(uint64_t(dp))));
  }
  if ((!reduces_leaves || has_halves) && !is_power(plan.num_microbatches)) {
    return infeasible(
        fmt::format("run.reproducible = \"{}\" sums along a binary tree: the {} micro-batches "
                    "of a rank must be a power of two; change batch.global_sequences or "
                    "batch.micro_sequences, or take \"fixed\"",
                    plan.config.run.reproducible, plan.num_microbatches));
  }
  return Done{};
}

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
  return program;
}

// Which part of the norm a rank counts: what other ranks hold too is counted once.
void place_norm(RankPlan& rank, const NormChunks& norm_chunks, const RunPlan& plan) {
  const bool is_exact = plan.shape.slices > 0;  // chunks follow tp
  rank.norm_sum = is_exact ? NormSum::Exact : NormSum::Chunks;
  rank.num_norm_words = is_exact ? kExactNormWords : norm_chunks.total();
  const auto counts = [&](const ZeroShape& zero, int cp_holder, int dp_holder) {
    return cp_holder == 0 && dp_holder == (zero.level == 0 ? 0 : zero.index);
  };
  const bool counts_rest = counts(rank.zero, rank.coords.cp, rank.coords.dp);
  const bool counts_experts = counts(rank.expert_zero, rank.coords.cp / plan.mesh.ep_cp(),
                                     rank.coords.dp / plan.mesh.ep_dp());
  const size_t num_chunks = has_two_directions(plan.schedule) ? 1 : rank.chunks.size();
  for (size_t c = 0; c < num_chunks; ++c) {
    ChunkTables& chunk = rank.chunks[c];
    for (OwnedParam& owned : chunk.owned) {
      const bool is_second_holder =
          plan.model.tied_head && owned.name == "embedding.tokens" && !chunk.stage.has_embedding;
      if (is_second_holder || !(owned.is_of_expert ? counts_experts : counts_rest)) continue;
      const int64_t first = norm_chunks.first(owned.name, rank.coords.tp);
      if (first < 0) continue;
      owned.norm_word = is_exact ? 0 : first + owned.first / kNormChunk;
    }
  }
}

void make_chunks(RankPlan& rank, const RunPlan& plan) {
  const MemoryConfig& memory = plan.config.memory;
  for (ChunkTables& chunk : rank.chunks) {
    chunk = chunk_tables(plan.model, chunk.stage, rank.shape, rank.zero, rank.expert_zero,
                         plan.config.parallel.bucket_bytes, memory.offload == "all");
    if (memory.offload == "none") continue;
    chunk.pieces = offload_pieces(chunk, memory.offload_buffer_bytes);
  }
}

void move_to(RankPlan& rank, int position, const RunPlan& plan) {
  rank.position = position;
  rank.coords = coords_of(plan.mesh, position);
  rank.shape = plan.shape;
  rank.shape.tp_rank = rank.coords.tp;
  rank.shape.cp_rank = rank.coords.cp;
  rank.shape.ep_rank = rank.coords.ep;
}

// A rank's place and the stages of its chunks, and nothing of what they hold.
RankPlan outline_rank(const RunPlan& plan, int position, const std::vector<StageSpec>& stages) {
  const StageGraph graph(plan.schedule);
  RankPlan rank;
  move_to(rank, position, plan);
  const int pp = rank.coords.pp;
  const auto chunk_here = [&](StagePlace place) { return place.rank == pp ? place.chunk : -1; };
  for (int c = 0; c < plan.schedule.num_chunks; ++c) {
    const int stage = graph.stage(pp, c);
    rank.places.push_back(
        {stage, chunk_here(graph.previous(pp, c)), chunk_here(graph.next(pp, c))});
    rank.chunks.push_back({.stage = stages[size_t(stage)]});
  }
  return rank;
}

RankPlan compile_rank(RankPlan rank, const RunPlan& plan, const NormChunks& norm_chunks) {
  const ParallelConfig& parallel = plan.config.parallel;
  const int m = int(plan.num_microbatches);
  rank.zero = zero_of(parallel, rank.coords);
  rank.expert_zero = expert_zero_of(rank.zero, plan.mesh.ep_dp(), rank.coords);
  rank.num_expert_loads =
      plan.model.has_experts() ? plan.model.layers * (plan.model.experts + 1) : 0;
  rank.num_router_losses = plan.model.has_experts() ? plan.model.layers * 2 : 0;
  rank.num_unit_slots = parallel.prefetch + 1;
  make_chunks(rank, plan);
  place_norm(rank, norm_chunks, plan);

  const bool reduces_leaves = rank.zero.shards_grads();
  const auto in_blocks = has_two_directions(plan.schedule) ? &MicrobatchMap::contiguous_halves
                                                           : &MicrobatchMap::contiguous;
  rank.microbatches = reduces_leaves ? MicrobatchMap::strided(m, parallel.dp, rank.coords.dp)
                                     : in_blocks(m, parallel.dp, rank.coords.dp);
  const MicrobatchMap summed = reduces_leaves ? MicrobatchMap::contiguous(m) : rank.microbatches;
  const DataParallelShape shape = data_parallel_shape(rank);
  rank.program = accumulate(plan.schedule.programs[size_t(rank.coords.pp)],
                            plan.schedule.num_chunks, plan.mode, summed)
                     .program;
  if (parallel.dp > 1) rank.program = add_reduce_grad(rank.program, shape);
  if (has_two_directions(plan.schedule)) join_directions(rank.program, rank, parallel.pp);
  join_tied_table(rank.program, plan, rank);
  append_step(rank.program);
  rank.post_validates = plan.config.optim.post_validate;
  if (rank.post_validates) append_validate(rank.program);
  rank.program = add_offload(rank.program, shape.num_pieces);
  rank.program = add_unshard(rank.program, shape);
  rank.eval_program = add_unshard(forward_only(rank, plan.schedule, rank.coords.pp), shape);
  return rank;
}

// What levels 1 and 2 read is gathered behind Validate, and in fp16 the scale of the next step's
// loss is known only then.
void set_num_ahead(RunPlan& plan) {
  if (plan.shape.compute == DType::F16) return;
  const RankPlan& front = plan.ranks.front();
  if (!front.post_validates || front.zero.level == 1 || front.zero.level == 2) return;
  std::vector<const Program*> programs;
  for (const RankPlan* rank : pipeline_of(plan)) programs.push_back(&rank->program);
  const std::vector<int> num_ahead = leading_forwards(plan.schedule, programs);
  for (RankPlan& rank : plan.ranks) rank.num_ahead = num_ahead[size_t(rank.coords.pp)];
}

// What all ranks of a plan share: its shape, its schedule and, as the result, its stages.
Result<std::vector<StageSpec>> lay_out_pipeline(RunPlan& plan, PlanParts& parts) {
  if (const auto misfit = shape_for_mesh(plan)) return misfit->error;
  TRIREME_TRY(schedule, parts.schedule(plan));
  plan.schedule = std::move(schedule);
  TRIREME_TRY_DONE(check_layout_tree(plan));
  plan.shape.split_backward = false;
  for (const Program& program : plan.schedule.programs) {
    plan.shape.split_backward = plan.shape.split_backward || splits_backward(program);
  }
  TRIREME_TRY(stages, split_stages(plan, num_stages(plan.schedule)));
  for (const StageSpec& stage : stages) {
    TRIREME_TRY_DONE(parts.check_placements(plan, stage));
  }
  plan.ranks.clear();
  return std::move(stages);
}

// The data-parallel index whose shards of a stage are largest; they differ by blocks of a norm.
int heaviest_dp(const RunPlan& plan, const RankPlan& rank) {
  int heaviest = 0;
  int64_t most = -1;
  for (int dp = 0; dp < plan.mesh.dp; ++dp) {
    const MeshCoords coords =
        coords_of(plan.mesh, position_of(plan.mesh, {.pp = rank.coords.pp, .dp = dp}));
    const ZeroShape zero = zero_of(plan.config.parallel, coords);
    const ZeroShape of_experts = expert_zero_of(zero, plan.mesh.ep_dp(), coords);
    int64_t held = 0;
    for (const ChunkTables& chunk : rank.chunks) {
      for (const PlacedBucket& placed : chunk.buckets) {
        const ZeroShape& own = placed.bucket.is_of_experts ? of_experts : zero;
        if (own.index >= own.num_holders()) continue;
        held += shard_ranges(placed.bucket, own.num_holders(), own.index).grads.count;
      }
    }
    if (held > most) {
      most = held;
      heaviest = dp;
    }
  }
  return heaviest;
}

void add_heaviest(RunPlan& plan, const std::vector<RankPlan>& outlines,
                  const NormChunks& norm_chunks) {
  if (plan.config.parallel.zero == 0) return;
  for (size_t pp = 0; pp < outlines.size(); ++pp) {
    const int dp = heaviest_dp(plan, plan.ranks[pp]);
    if (dp == 0) continue;
    RankPlan heaviest = outlines[pp];
    move_to(heaviest, position_of(plan.mesh, {.pp = int(pp), .dp = dp}), plan);
    plan.ranks.push_back(compile_rank(std::move(heaviest), plan, norm_chunks));
  }
}

}  // namespace

void plan_rank_memory(RankPlan& rank, const RunPlan& plan) {
  MemoryNeeds needs;
  for (size_t c = 0; c < rank.chunks.size(); ++c) {
    needs.chunks.push_back(
        {&rank.chunks[c], rank.places[c].previous_chunk, rank.places[c].next_chunk});
  }
  needs.workspace_bytes = plan.num_threads * kWorkspaceBytesPerThread;
  needs.message_bytes = rank.chunks.front().tables.saved.at("y_TC").bytes();
  const int exchanges = rank.num_ahead > 0 ? 2 : 1;  // of two steps
  needs.exchange_bytes = exchanges * exchange_words(rank) * size_of(DType::I64);
  needs.num_ahead = rank.num_ahead;
  needs.num_unit_slots = rank.num_unit_slots;
  rank.memory = plan_memory(rank.program, rank.eval_program, needs);
}

Status compile_plan(RunPlan& plan) {
  PlanParts parts;
  TRIREME_TRY(stages, lay_out_pipeline(plan, parts));
  const NormChunks& norm_chunks = parts.norm_chunks(plan);
  for (int position = 0; position < plan.mesh.size(); ++position) {
    plan.ranks.push_back(compile_rank(outline_rank(plan, position, stages), plan, norm_chunks));
  }
  set_num_ahead(plan);
  for (RankPlan& rank : plan.ranks) plan_rank_memory(rank, plan);
  const std::vector<Problem> problems = check_ranks(plan.schedule, plan.mesh, plan.ranks);
  TRIREME_CHECK(problems.empty(), explain(plan.schedule, plan.ranks, problems.front()));
  return Done{};
}

Status outline_pipeline(RunPlan& plan, PlanParts& parts) {
  TRIREME_TRY(stages, lay_out_pipeline(plan, parts));
  for (int pp = 0; pp < plan.mesh.pp; ++pp) {
    plan.ranks.push_back(outline_rank(plan, position_of(plan.mesh, {.pp = pp}), stages));
  }
  return Done{};
}

void compile_outlined(RunPlan& plan, PlanParts& parts) {
  const NormChunks& norm_chunks = parts.norm_chunks(plan);
  const std::vector<RankPlan> outlines = std::move(plan.ranks);
  plan.ranks.clear();
  for (const RankPlan& outline : outlines) {
    plan.ranks.push_back(compile_rank(outline, plan, norm_chunks));
  }
  add_heaviest(plan, outlines, norm_chunks);
  set_num_ahead(plan);
  for (RankPlan& rank : plan.ranks) plan_rank_memory(rank, plan);
}

}  // namespace trireme
