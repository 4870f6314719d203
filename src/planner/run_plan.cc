#include "planner/run_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/input_limits.h"
#include "base/nearest_name.h"
#include "optim/optimizer.h"
#include "planner/asynchronous_plan.h"
#include "planner/compile_to_fit.h"
#include "planner/memory_refusal.h"

namespace trireme {
namespace {

Result<Recompute> parse_recompute(const std::string& name) {
  if (name == "none") return Recompute::None;
  if (name == "selective") return Recompute::Selective;
  if (name == "full") return Recompute::Full;
  return usage(
      fmt::format("memory.recompute = \"{}\" is unknown; use none, selective or full", name));
}

Result<DType> parse_compute(const std::string& name) {
  if (name == "fp32") return DType::F32;
  if (name == "bf16") return DType::BF16;
  if (name == "fp16") return DType::F16;
  return usage(fmt::format("precision.compute = \"{}\" is unknown; use fp32, bf16 or fp16", name));
}

Result<AccumulateMode> parse_reproducible(const std::string& name) {
  if (name == "fixed") return AccumulateMode::Fixed;
  if (name == "layout" || name == "mesh") return AccumulateMode::Layout;
  return usage(
      fmt::format("run.reproducible = \"{}\" is unknown; use fixed, layout or mesh", name));
}

// Slices of every layer, which must not depend on tp; 0: as many slices as tp ranks.
Result<int> slices_of(const RunSection& run, const ModelSpec& model) {
  if (run.reproducible != "mesh") return 0;
  if (!model.has_experts()) return most_slices(model);
  return usage(
      "run.reproducible = \"mesh\" is for model.family = \"gpt2\" and \"llama\": a router's "
      "gradient is summed over tp ranks at the end of a step; take \"layout\"");
}

Status check_mesh(const Mesh& mesh) {
  const std::vector<std::string> problems = problems_of(mesh);
  return problems.empty() ? Status(Done{}) : Status(usage(problems.front()));
}

Status check_sync(const ParallelConfig& parallel) {
  if (parallel.sync == "all_reduce") return Done{};
  if (parallel.sync != "parameter_server") {
    return usage(fmt::format(
        "parallel.sync = \"{}\" is unknown; use all_reduce or parameter_server", parallel.sync));
  }
  if (parallel.servers < 1 || parallel.servers > parallel.dp) {
    return usage(fmt::format("parallel.servers = {} must be between 1 and parallel.dp = {}",
                             parallel.servers, parallel.dp));
  }
  if (parallel.ep == 1 && parallel.hsdp_shard == 0) return Done{};
  return Error{ErrorKind::Infeasible,
               fmt::format("parallel.sync = \"parameter_server\" keeps all parameters on the "
                           "servers: parallel.ep = {} must be 1 and parallel.hsdp_shard = {} 0",
                           parallel.ep, parallel.hsdp_shard)};
}

Status check_units(const ParallelConfig& parallel) {
  if (parallel.bucket_bytes < 0 || parallel.prefetch < 0) {
    return usage(
        fmt::format("parallel.bucket_bytes = {} and parallel.prefetch = {} must not be negative",
                    parallel.bucket_bytes, parallel.prefetch));
  }
  return Done{};
}

Status check_offload(const MemoryConfig& memory) {
  if (memory.offload != "none" && memory.offload != "optimizer" && memory.offload != "all") {
    return usage(fmt::format("memory.offload = \"{}\" is unknown; use none, optimizer or all",
                             memory.offload));
  }
  if (memory.offload_buffer_bytes > 0) return Done{};
  return usage(fmt::format("memory.offload_buffer_bytes = {} must be positive",
                           memory.offload_buffer_bytes));
}

// Refuses a model that no rank can hold before its plan is made: such a plan lists the pieces of
// every tensor and would itself need gigabytes.
Status check_share_of_rank(const RunPlan& plan) {
  const ModelSpec& model = plan.model;
  const ParallelConfig& parallel = plan.config.parallel;
  const int64_t micro = plan.shape.micro_sequences;
  const double tokens = double(micro) * double(model.seq_len) / double(parallel.cp);
  if (tokens > double(limits::kMicroBatchTokens)) {
    return infeasible(fmt::format(
        "batch.micro_sequences = {} of model.seq_len = {} are {:.1e} tokens on a rank; the limit "
        "is {}: take a smaller micro-batch, shorter sequences or a larger parallel.cp",
        micro, model.seq_len, tokens, limits::kMicroBatchTokens));
  }
  const double params =
      double(num_params(model)) / (double(parallel.tp) * double(parallel.pp) * double(parallel.ep) *
                                   (parallel.zero == 3 ? double(parallel.dp) : 1.0));
  if (params <= limits::kParametersOfRank) return Done{};
  return infeasible(fmt::format(
      "the model has {:.1e} parameters, {:.1e} on each rank after parallel.tp, pp, ep and ZeRO 3; "
      "the limit is {:.0e} per rank: increase these degrees or take a smaller model",
      double(num_params(model)), params, limits::kParametersOfRank));
}

}  // namespace

bool RunPlan::holds_whole_model(const RankPlan& rank) const {
  const StageSpec& stage = rank.chunks.front().stage;
  return rank.chunks.size() == 1 && stage.has_embedding && stage.has_head &&
         !rank.zero.shards_params() && mesh.tp == 1 && mesh.ep == 1;
}

int64_t RunPlan::arena_bytes() const {
  int64_t bytes = 0;
  for (const RankClass& alike : classes) bytes += alike.num_ranks * alike.memory.arena_bytes;
  return bytes;
}

const RankClass& RunPlan::largest() const {
  return *std::max_element(classes.begin(), classes.end(),
                           [](const RankClass& a, const RankClass& b) {
                             return a.memory.arena_bytes < b.memory.arena_bytes;
                           });
}

int64_t RunPlan::greatest_peak_bytes() const {
  int64_t most = 0;
  for (const RankClass& alike : classes) most = std::max(most, alike.memory.peak_bytes);
  return most;
}

Result<int64_t> global_sequences_of(const RunConfig& config) {
  const BatchConfig& batch = config.batch;
  const int64_t seq_len = config.model.seq_len;
  if (batch.global_sequences > 0 && batch.global_tokens > 0 &&
      batch.global_sequences * seq_len != batch.global_tokens) {
    return usage(fmt::format(
        "batch.global_sequences = {} contradicts batch.global_tokens = {} at model.seq_len = {}; "
        "set one of them",
        batch.global_sequences, batch.global_tokens, seq_len));
  }
  if (batch.global_tokens > 0 && batch.global_tokens % seq_len != 0) {
    return usage(
        fmt::format("batch.global_tokens = {} must be a multiple of model.seq_len = {}; try {}",
                    batch.global_tokens, seq_len,
                    std::max<int64_t>(1, batch.global_tokens / seq_len) * seq_len));
  }
  if (batch.global_sequences > 0) return batch.global_sequences;
  if (batch.global_tokens > 0) return batch.global_tokens / seq_len;
  return batch.micro_sequences * config.parallel.dp;
}

Result<RunPlan> start_plan(const RunConfig& config, const HostFacts& host) {
  RunPlan plan;
  plan.config = config;
  const ParallelConfig& parallel = config.parallel;
  TRIREME_TRY_DONE(check_units(parallel));
  TRIREME_TRY_DONE(check_sync(parallel));
  if (config.optim.post_validate && config.memory.offload != "none") {
    return Error{
        ErrorKind::Infeasible,
        fmt::format("optim.post_validate keeps copies of the weights and the optimizer state in "
                    "memory from Step to Validate, but memory.offload = \"{}\" exists to keep "
                    "them out of memory; it would not be faster either, because ranks wait for "
                    "the first pieces of the state in any case: set "
                    "optim.post_validate = false or memory.offload = \"none\"",
                    config.memory.offload)};
  }
  TRIREME_TRY_DONE(check_offload(config.memory));
  TRIREME_TRY(model, resolve_model(config.model, host.data_vocab_size));
  plan.mesh = {parallel.tp, parallel.cp, parallel.pp, parallel.dp, parallel.ep};
  TRIREME_TRY_DONE(check_mesh(plan.mesh));
  TRIREME_TRY(recompute, parse_recompute(config.memory.recompute));
  TRIREME_TRY(compute, parse_compute(config.precision.compute));
  TRIREME_TRY(mode, parse_reproducible(config.run.reproducible));
  TRIREME_TRY(slices, slices_of(config.run, model));
  TRIREME_TRY(optimizer, optimizer_kind(config.optim));
  plan.model = model;
  plan.mode = mode;
  plan.hardware = host.hardware;
  plan.num_params = num_params(model);
  plan.flops_per_token = model_flops_per_token(model);
  const int ranks_on_host = host.ranks_on_host > 0 ? host.ranks_on_host : plan.num_ranks();
  plan.num_threads = config.run.threads_per_rank > 0 ? config.run.threads_per_rank
                                                     : std::max(1, host.num_cores / ranks_on_host);
  const int64_t micro = config.batch.micro_sequences;
  if (micro <= 0) return usage(fmt::format("batch.micro_sequences = {} must be positive", micro));
  TRIREME_TRY(global, global_sequences_of(config));
  if (global % parallel.dp != 0) {
    return usage(fmt::format("parallel.dp = {} must divide the {} sequences of a step", parallel.dp,
                             global));
  }
  const int64_t of_rank = global / parallel.dp;
  if (of_rank % micro != 0) {
    return usage(fmt::format(
        "batch.micro_sequences = {} must divide the {} sequences of a rank and step; try {}", micro,
        of_rank, [&] {
          int64_t divisor = std::min(micro, of_rank);
          while (of_rank % divisor != 0) --divisor;
          return divisor;
        }()));
  }
  plan.global_sequences = global;
  plan.num_microbatches = of_rank / micro;
  plan.shape.micro_sequences = micro;
  plan.shape.compute = compute;
  plan.shape.recompute = recompute;
  plan.shape.slices = slices;
  plan.shape.optimizer_state = optimizer_state_of(config.optim, optimizer);
  return plan;
}

int64_t memory_limit(const RunPlan& plan, const HostFacts& host) {
  if (plan.config.memory.limit_bytes > 0) return plan.config.memory.limit_bytes;
  const int ranks_on_host = host.ranks_on_host > 0 ? host.ranks_on_host : plan.num_ranks();
  return host.memory_bytes / ranks_on_host * plan.num_ranks();
}

Result<RunPlan> make_plan(const RunConfig& config, const HostFacts& host) {
  if (config.parallel.staleness > 0) return make_asynchronous_plan(config, host);
  TRIREME_TRY(plan, start_plan(config, host));
  TRIREME_TRY_DONE(check_share_of_rank(plan));
  const int64_t limit = memory_limit(plan, host);
  TRIREME_TRY_DONE(compile_to_fit(plan, limit));
  if (limit > 0 && bytes_to_fit(plan) > limit) return memory_refusal(plan, limit, host);
  return plan;
}

}  // namespace trireme
