#include <fmt/format.h>

#include "jobs/import_forms.h"
#include "jobs/job_reader.h"

namespace trireme {
namespace {

constexpr int64_t kDeepspeedMostOfAProduct = int64_t{1} << 31;

constexpr ForeignRefusal kDeepspeedRefusals[] = {
    {"zero_optimization.offload_optimizer.device", "none", "it goes to a device that we lack",
     "use cpu"},
    {"zero_optimization.offload_param.device", "none", "it goes to a device that we lack",
     "use cpu"},
    {"zero_optimization.zero_hpz_partition_size", "1",
     "a second partition of the parameters is "
     "not priced"},
    {"zero_optimization.zero_quantized_*", "", "quantized messages are not priced"},
    {"compression_training.*", "", "compression is not priced"},
    {"autotuning.enabled", "", "autotuning chooses the layout later", "write what it has chosen"},
    {"sparse_attention.*", "", "sparse attention is not supported"},
    {"pipeline.*", "", "stages are given by parallel.pp of RUN.toml"},
    {"tensor_parallel.autotp_size", "1", "the degree of tensor parallelism is in RUN.toml",
     "set parallel.tp and remove it"},
    {"sequence_parallel_size", "1", "the degree of context parallelism is in RUN.toml",
     "set parallel.cp and remove it"},
};

// Keys of DeepSpeed edaa7221 that change neither memory nor time of a step.
constexpr std::string_view kDeepspeedKnown =
    "steps_per_print wall_clock_breakdown memory_breakdown dump_state log_level "
    "prescale_gradients gradient_predivide_factor gradient_allreduce_op sparse_gradients "
    "disable_allgather communication_data_type seq_parallel_communication_data_type "
    "dataloader_drop_last zero_allow_untested_optimizer zero_force_ds_cpu_optimizer "
    "use_data_before_expert_parallelism managed_gradient_accumulation graph_harvesting "
    "vocabulary_size seed local_rank "
    "activation_checkpointing.* aio.* amp.* autotuning.* checkpoint.* comet.* comms_logger.* "
    "compile.* csv_monitor.* curriculum_learning.* data_efficiency.* eigenvalue.* "
    "elasticity.* flops_profiler.* hybrid_engine.* monitor_config.* nebula.* optimizer.* "
    "progressive_layer_drop.* scheduler.* tensor_parallel.* tensorboard.* timers.* "
    "torch_autocast.* wandb.* weight_quantization.* "
    "bf16.immediate_grad_update bf16.check_grad_overflow bf16.bf16_master_weights_and_grads "
    "bf16.bf16_optimizer_states bf16.auto_cast fp16.loss_scale fp16.initial_scale_power "
    "fp16.loss_scale_window fp16.hysteresis fp16.consecutive_hysteresis fp16.min_loss_scale "
    "fp16.auto_cast fp16.fp16_master_weights_and_grads "
    "zero_optimization.contiguous_gradients zero_optimization.reduce_scatter "
    "zero_optimization.reduce_bucket_size zero_optimization.use_multi_rank_bucket_allreduce "
    "zero_optimization.allgather_partitions zero_optimization.allgather_bucket_size "
    "zero_optimization.overlap_comm zero_optimization.load_from_fp32_weights "
    "zero_optimization.elastic_checkpoint zero_optimization.zenflow.* "
    "zero_optimization.offload_param.nvme_path zero_optimization.offload_param.buffer_count "
    "zero_optimization.offload_param.buffer_size zero_optimization.offload_param.max_in_cpu "
    "zero_optimization.offload_param.pin_memory zero_optimization.offload_optimizer.nvme_path "
    "zero_optimization.offload_optimizer.buffer_count "
    "zero_optimization.offload_optimizer.buffer_size "
    "zero_optimization.offload_optimizer.pin_memory "
    "zero_optimization.offload_optimizer.pipeline_read "
    "zero_optimization.offload_optimizer.pipeline_write "
    "zero_optimization.offload_optimizer.fast_init zero_optimization.offload_optimizer.ratio "
    "zero_optimization.offload_optimizer.super_offload "
    "zero_optimization.offload_optimizer.cpuadam_cores_perc "
    "zero_optimization.sub_group_size zero_optimization.cpu_offload "
    "zero_optimization.cpu_offload_param zero_optimization.cpu_offload_use_pin_memory "
    "zero_optimization.stage3_* zero_optimization.prefetch_bucket_size "
    "zero_optimization.param_persistence_threshold "
    "zero_optimization.model_persistence_threshold zero_optimization.max_live_parameters "
    "zero_optimization.max_reuse_distance zero_optimization.gather_16bit_weights_on_model_save "
    "zero_optimization.module_granularity_threshold "
    "zero_optimization.use_all_reduce_for_fetch_params zero_optimization.allgather_sequential "
    "zero_optimization.ignore_unused_parameters zero_optimization.legacy_stage1 "
    "zero_optimization.round_robin_gradients zero_optimization.zeropp_loco_param.* "
    "zero_optimization.mics_hierarchical_params_gather zero_optimization.memory_efficient_linear "
    "zero_optimization.pipeline_loading_checkpoint zero_optimization.override_module_apply "
    "zero_optimization.log_trace_cache_warnings zero_optimization.enable_sanity_checks "
    "zero_optimization.save_muon_momentum_buffer_in_memory zero_optimization.leaf_module.*";

std::optional<int64_t> deepspeed_count(JobReader& job, std::string_view key) {
  if (job.word(key).value_or("") == "auto") {
    job.wrong(key, "is \"auto\"", "write the number");
    return std::nullopt;
  }
  const auto value = job.integer(key);
  if (!value || (*value >= 1 && *value <= kDeepspeedMostOfAProduct)) return value;
  job.wrong(key, fmt::format("must be from 1 to {}", kDeepspeedMostOfAProduct),
            "take another number");
  return std::nullopt;
}

// The batch sizes say how many copies of the model the job has. With --ranks, or other degrees by
// --set, the ranks are shared out anew.
void assign_copies(JobReader& job, int64_t copies, std::string_view key) {
  const ImportRequest& request = job.request();
  if (is_overridden(request, "parallel.dp")) return;
  const ParallelConfig& degrees = request.base.parallel;
  const int64_t of_a_copy = int64_t{degrees.tp} * degrees.pp * degrees.cp;
  const int64_t before = request.base_ranks_per_copy > 0 ? request.base_ranks_per_copy : of_a_copy;
  const int64_t ranks = request.ranks ? int64_t{*request.ranks} : copies * before;
  if (of_a_copy >= 1 && ranks >= 1 && ranks % of_a_copy == 0) {
    return job.assign("parallel.dp", ranks / of_a_copy, key);
  }
  if (request.ranks) return;  // --ranks is refused
  job.wrong(key,
            fmt::format("the job has {} ranks, which parallel.tp * pp * cp = {} must divide", ranks,
                        of_a_copy),
            "change one of the degrees, or give --ranks N");
}

// Two of the three batch sizes give the third; all three give dp.
void read_deepspeed_batch(JobReader& job) {
  const std::string_view step_key = "train_batch_size";
  const std::string_view micro_key = "train_micro_batch_size_per_gpu";
  const std::string_view accumulation_key = "gradient_accumulation_steps";
  const auto step = deepspeed_count(job, step_key), micro = deepspeed_count(job, micro_key);
  const auto accumulation = deepspeed_count(job, accumulation_key);
  const int64_t base_dp = std::max(1, job.request().base.parallel.dp);
  if (!step && !micro) {
    return job.wrong(step_key, "is missing, and train_micro_batch_size_per_gpu as well",
                     "add two of the three batch sizes");
  }
  if (step && micro && accumulation) {
    const int64_t of_rank =
        *micro <= kDeepspeedMostOfAProduct / *accumulation ? *micro * *accumulation : 0;
    if (of_rank == 0 || *step % of_rank != 0) {
      return job.wrong(step_key,
                       fmt::format("must be a multiple of {} * gradient_accumulation_steps = {} "
                                   "* {}",
                                   micro_key, *micro, *accumulation),
                       "change one of them");
    }
    assign_copies(job, *step / of_rank, step_key);
    job.assign("batch.global_sequences", *step, step_key);
    return job.assign("batch.micro_sequences", *micro, micro_key);
  }
  if (micro) {
    const int64_t m = accumulation.value_or(1);
    const bool fits = *micro <= kDeepspeedMostOfAProduct / m / base_dp;
    if (!step && !fits) return job.wrong(micro_key, "gives too large a step", "take less");
    job.assign("batch.micro_sequences", *micro, micro_key);
    const int64_t derived = step ? *step : *micro * m * base_dp;
    return job.assign("batch.global_sequences", derived, step ? step_key : micro_key);
  }
  const int64_t m = accumulation.value_or(1);
  if (*step % base_dp != 0 || (*step / base_dp) % m != 0) {
    return job.wrong(
        step_key,
        fmt::format("must be a multiple of dp = {} times the {} micro-batches", base_dp, m),
        "change parallel.dp or --ranks");
  }
  job.assign("batch.global_sequences", *step, step_key);
  job.assign("batch.micro_sequences", *step / base_dp / m, step_key);
}

void read_deepspeed_zero(JobReader& job) {
  const std::string_view key = "zero_optimization.stage";
  const int64_t stage = job.integer(key).value_or(0);
  job.assign("parallel.zero", stage, key);
  const int64_t shard = job.integer("zero_optimization.mics_shard_size").value_or(0);
  job.assign("parallel.hsdp_shard", std::max<int64_t>(shard, 0),
             "zero_optimization.mics_shard_size");
  const std::string_view optimizer_key = "zero_optimization.offload_optimizer.device";
  const std::string_view param_key = "zero_optimization.offload_param.device";
  const std::string optimizer = job.word(optimizer_key).value_or("none");
  const std::string param = job.word(param_key).value_or("none");
  for (const auto& [where, device] : {std::pair{optimizer_key, optimizer}, {param_key, param}}) {
    if (device != "none" && device != "cpu" && device != "nvme") {
      job.wrong(where, "is unknown", "use none, cpu or nvme");
    }
  }
  if (param != "none" && optimizer == "none") {
    job.refuse(param_key, "we offload parameters together with the optimizer",
               "offload the optimizer, too");
  }
  job.assign("memory.offload",
             std::string(param != "none"       ? "all"
                         : optimizer != "none" ? "optimizer"
                                               : "none"),
             param != "none" ? param_key : optimizer_key);
}

}  // namespace

Result<ImportedJob> import_deepspeed(const ImportRequest& request) {
  if (!request.has_base) {
    return usage(
        fmt::format("{}: ds_config.json has no model: name a RUN.toml with [model] and "
                    "the degrees before --from",
                    request.source));
  }
  TRIREME_TRY(settings, read_json_job(request.text, request.source));
  JobReader job(request, deepspeed_keys(), kDeepspeedKnown, std::move(settings));
  read_deepspeed_batch(job);
  read_deepspeed_zero(job);
  const bool is_bf16 = job.flag("bf16.enabled"), is_fp16 = job.flag("fp16.enabled");
  if (is_bf16 && is_fp16) {
    job.wrong("fp16.enabled", "and bf16.enabled exclude each other", "switch one of them off");
  }
  job.assign("precision.compute",
             std::string(is_bf16   ? "bf16"
                         : is_fp16 ? "fp16"
                                   : "fp32"),
             is_fp16 ? "fp16.enabled" : "bf16.enabled");
  if (job.has("gradient_clipping")) job.rows("optim.clip_norm");
  const std::string dtype = job.word("data_types.grad_accum_dtype").value_or("fp32");
  if (dtype != "fp32") {
    job.refuse("data_types.grad_accum_dtype", "gradients are summed in fp32 here", "use fp32");
  }
  job.refuse_all(kDeepspeedRefusals);
  return job.finish();
}

}  // namespace trireme
