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
    job.assign("parallel.dp", *step / of_rank, step_key);
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
  JobReader job(request, deepspeed_keys(), std::move(settings));
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
