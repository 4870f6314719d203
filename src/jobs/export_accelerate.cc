#include <fmt/format.h>

#include "jobs/export_forms.h"

namespace trireme {
namespace {

void check_accelerate_layout(JobWriter& job) {
  const RunConfig& config = job.config();
  const ParallelConfig& parallel = config.parallel;
  job.require(parallel.zero > 1, "parallel.zero",
              "its FSDP shards gradients and the optimizer's state, or parameters as well",
              "set parallel.zero = 2 or 3, with parallel.dp above 1");
  job.require(config.memory.recompute != Recompute::Selective, "memory.recompute",
              "it recomputes whole layers or nothing", "use \"full\" or \"none\"");
  job.require(config.memory.offload != OffloadChoice::Optimizer, "memory.offload",
              "it offloads parameters together with the optimizer", "use \"all\" or \"none\"");
  job.require(config.optim.name != OptimizerKind::Muon, "optim.name",
              "the memory of the layout is that of Muon, which its scripts do not have",
              "use \"adamw\"");
  job.require(parallel.context == ContextExchange::Ring, "parallel.context",
              "it exchanges keys and values, not heads", "use \"ring\"");
  if (parallel.sequence) {
    job.note("parallel.sequence = true is not written: the tp plan is part of the model there");
  }
}

}  // namespace

Result<ExportedJob> export_accelerate(const ExportRequest& request) {
  JobWriter job(request, accelerate_keys());
  const RunConfig& config = job.config();
  const ParallelConfig& parallel = config.parallel;
  check_accelerate_layout(job);
  const int64_t shard = parallel.hsdp_shard > 0 ? parallel.hsdp_shard : parallel.dp;
  const Nodes nodes = nodes_of(job.num_ranks());
  job.set("compute_environment", std::string("LOCAL_MACHINE"));
  job.set("distributed_type", std::string("FSDP"));
  job.set("num_machines", nodes.count);
  job.set("num_processes", job.num_ranks());
  const ComputeChoice compute = config.precision.compute;
  job.set("mixed_precision", std::string(compute == ComputeChoice::Fp32 ? "no" : name_of(compute)));
  job.set("fsdp_config.fsdp_version", int64_t{2});
  job.set("fsdp_config.fsdp_auto_wrap_policy", std::string("TRANSFORMER_BASED_WRAP"));
  job.set("fsdp_config.fsdp_reshard_after_forward", parallel.zero == 3);
  job.set("fsdp_config.fsdp_activation_checkpointing", config.memory.recompute == Recompute::Full);
  job.set("fsdp_config.fsdp_offload_params", config.memory.offload == OffloadChoice::All);
  const std::string root = "parallelism_config.parallelism_config_";
  job.set(root + "dp_replicate_size", parallel.dp / shard);
  job.set(root + "dp_shard_size", shard);
  job.rows("parallel.");
  // Which parameters are trained decides about memory, and the script says nothing of it here.
  for (const char* keys : {"model.lora_", "optim.frozen"}) job.rows(keys);
  if (parallel.cp > 1) job.set(root + "cp_comm_strategy", std::string("alltoall"));
  job.note(
      fmt::format("the model and the batch are in the script that Accelerate launches: {} "
                  "sequences a micro-batch of a rank, {} micro-batches a step, {} tokens a "
                  "sequence",
                  config.batch.micro_sequences, job.num_microbatches(), config.model.seq_len));
  TRIREME_TRY_DONE(job.status());
  return ExportedJob{{{request.path,
                       "# Layout of `trireme plan` for Accelerate: accelerate launch --config_file "
                       "FILE.\n" +
                           yaml_text(job.job())}},
                     std::move(job.notes())};
}

}  // namespace trireme
