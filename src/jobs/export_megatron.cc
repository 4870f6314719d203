#include "jobs/export_megatron.h"

#include <fmt/format.h>

#include "jobs/export_forms.h"
#include "jobs/megatron_stages.h"

namespace trireme {
namespace {

void write_megatron_pipeline(JobWriter& job) {
  const ParallelConfig& parallel = job.config().parallel;
  const bool is_interleaved = parallel.schedule == ScheduleKind::Interleaved;
  job.require(is_interleaved || parallel.schedule == ScheduleKind::OneFOneB, "parallel.schedule",
              "it has 1f1b and interleaved pipelines", "use \"1f1b\" or \"interleaved\"");
  job.require(!is_interleaved || (parallel.pp > 1 && parallel.chunks > 1), "parallel.schedule",
              "its interleaved pipeline needs parallel.pp and parallel.chunks above 1",
              "use \"1f1b\"");
  if (!job.has_even_stages()) {
    job.require(!job.request().stage_layers.empty(), "parallel.pp",
                "it must divide model.layers where the stages are not given", "take a divisor");
    job.set("--pipeline-model-parallel-layout",
            megatron_stages_text(job.request().stage_layers, job.config().model.mtp_depth));
  } else if (parallel.chunks > 1) {
    job.set("--num-virtual-stages-per-pipeline-rank", int64_t{parallel.chunks});
  }
}

// Megatron's own order is tp, cp, dp, pp, and its other one the usual order here.
void write_order(JobWriter& job) {
  const ParallelConfig& parallel = job.config().parallel;
  if (has_pp_outermost(parallel)) return;
  const Mesh ours = mesh_of(parallel);
  Mesh turned = ours;
  turned.order = kUsualOrder;
  const bool can_turn = are_numbered_alike(ours, turned) && parallel.zero < 2 &&
                        (!job.has_experts() || parallel.ep == parallel.cp);
  if (!can_turn) {
    return job.note(
        "Megatron-LM places pp outermost, outside dp: its neighbours in the pipeline may lie on "
        "other nodes than here");
  }
  job.flag("--use-tp-pp-dp-mapping", true);
  // It also compares the groups of the experts, which a dense model does not have.
  if (!job.has_experts() && parallel.cp > 1) {
    job.set("--expert-tensor-parallel-size", int64_t{parallel.tp} * parallel.cp);
  }
}

void write_megatron_zero(JobWriter& job) {
  const ParallelConfig& parallel = job.config().parallel;
  if (parallel.zero == 1) {
    for (const char* key :
         {"--use-distributed-optimizer", "--overlap-grad-reduce", "--overlap-param-gather"}) {
      job.flag(key, true);
    }
  } else if (parallel.zero > 1) {
    job.flag("--use-megatron-fsdp", true);
    job.set("--ckpt-format", std::string("fsdp_dtensor"));
    job.set("--data-parallel-sharding-strategy",
            std::string(parallel.zero == 2 ? "optim_grads" : "optim_grads_params"));
  }
  if (parallel.hsdp_shard == 0) return;
  const int64_t copies = int64_t{parallel.dp} * parallel.cp / parallel.hsdp_shard;
  const int64_t expert_dp = int64_t{parallel.dp} * parallel.cp / parallel.ep;
  job.require(expert_dp % copies == 0, "parallel.hsdp_shard",
              fmt::format("its {} copies must divide the {} ranks that have the same experts",
                          copies, expert_dp),
              "take larger shard groups");
  job.set("--num-distributed-optimizer-instances", copies);
}

void write_memory(JobWriter& job) {
  const MemoryConfig& memory = job.config().memory;
  if (memory.recompute == Recompute::Full) {
    job.set("--recompute-granularity", std::string("full"));
    job.set("--recompute-method", std::string("uniform"));
    job.set("--recompute-num-layers", int64_t{1});
  } else if (memory.recompute == Recompute::Selective) {
    job.set("--recompute-granularity", std::string("selective"));
    job.set("--recompute-modules",
            std::string(job.has_experts() ? "layernorm moe_act" : "layernorm"));
    job.note(
        "Megatron-LM's selective recomputation drops norms and the experts' activations: "
        "somewhat less than memory.recompute = \"selective\" drops here");
  }
  job.require(memory.offload != OffloadChoice::All, "memory.offload",
              "it offloads the optimizer alone", "use \"optimizer\" or \"none\"");
  if (memory.offload != OffloadChoice::Optimizer) return;
  job.require(job.config().parallel.zero == 1, "memory.offload",
              "it offloads the distributed optimizer only", "set parallel.zero = 1");
  job.flag("--optimizer-cpu-offload", true);
  job.flag("--use-precision-aware-optimizer", true);
}

std::string megatron_script_text(const JobWriter& job) {
  const ParallelConfig& parallel = job.config().parallel;
  const Nodes nodes = nodes_of(job.num_ranks());
  std::string text = "#!/usr/bin/env bash\n# Layout of `trireme plan` for Megatron-LM.\n";
  // It orders communication before computation; its FSDP wants several connections.
  const bool needs_order = (parallel.tp > 1 || parallel.cp > 1) && parallel.zero < 2;
  if (needs_order) text += "export CUDA_DEVICE_MAX_CONNECTIONS=1\n";
  text += fmt::format(
      "\nARGS=(\n{})\n\ntorchrun --nnodes {} --nproc-per-node {} pretrain_gpt.py \\\n"
      "  \"${{ARGS[@]}}\" \"$@\"\n",
      argument_lines(job.job()), nodes.count, nodes.ranks);
  return text;
}

}  // namespace

Result<ExportedJob> export_megatron(const ExportRequest& request) {
  JobWriter job(request, megatron_keys());
  job.rows("parallel.");
  write_megatron_pipeline(job);
  write_order(job);
  write_megatron_zero(job);
  job.rows("batch.");
  write_memory(job);
  job.rows("memory.");
  const ComputeChoice compute = job.config().precision.compute;
  job.flag("--bf16", compute == ComputeChoice::Bf16);
  job.flag("--fp16", compute == ComputeChoice::Fp16);
  write_megatron_model(job);
  write_megatron_experts(job);
  job.rows("optim.");
  if (job.config().optim.schedule == LrScheduleKind::Wsd && job.config().optim.decay_steps > 0) {
    job.set("--lr-wsd-decay-iters", job.config().optim.decay_steps);
  }
  job.set("--train-iters", job.config().run.steps);
  TRIREME_TRY_DONE(job.status());
  return ExportedJob{{{request.path, megatron_script_text(job)}}, std::move(job.notes())};
}

}  // namespace trireme
