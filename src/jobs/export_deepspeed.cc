#include <fmt/format.h>

#include <filesystem>

#include "jobs/export_forms.h"

namespace trireme {
namespace {

void write_deepspeed_zero(JobWriter& job) {
  const ParallelConfig& parallel = job.config().parallel;
  job.require(parallel.pp == 1 || parallel.zero < 2, "parallel.zero",
              "its pipelines take ZeRO 0 and 1", "set parallel.zero = 1 or parallel.pp = 1");
  job.set("zero_optimization.stage", int64_t{parallel.zero});
  job.require(parallel.hsdp_shard == 0, "parallel.hsdp_shard",
              "it shards over all dp ranks since version 0.19, which has no MiCS any more",
              "set parallel.hsdp_shard = 0");
  const OffloadChoice offload = job.config().memory.offload;
  job.require(offload == OffloadChoice::None || parallel.zero > 0, "memory.offload",
              "it offloads what ZeRO shards", "set parallel.zero = 1");
  job.require(offload != OffloadChoice::All || parallel.zero == 3, "memory.offload",
              "it offloads parameters that are sharded", "set parallel.zero = 3");
  if (offload != OffloadChoice::None) {
    job.set("zero_optimization.offload_optimizer.device", std::string("cpu"));
  }
  if (offload == OffloadChoice::All) {
    job.set("zero_optimization.offload_param.device", std::string("cpu"));
  }
}

void write_deepspeed_pipeline(JobWriter& job) {
  const ParallelConfig& parallel = job.config().parallel;
  const bool is_zb = parallel.schedule == ScheduleKind::ZbH1;
  job.require(is_zb || parallel.schedule == ScheduleKind::OneFOneB, "parallel.schedule",
              "it has 1f1b and zb_h1", "use \"1f1b\" or \"zb_h1\"");
  job.require(!is_zb || parallel.pp > 1, "parallel.schedule", "without pp it runs 1f1b",
              "use \"1f1b\"");
  job.require(!is_zb || !parallel.sequence, "parallel.sequence",
              "its zb_h1 does not split the sequence", "set parallel.sequence = false");
  job.require(job.config().model.layers % parallel.pp == 0, "parallel.pp",
              fmt::format("it must divide model.layers = {} there", job.config().model.layers),
              "take a divisor");
  job.flag("--enable-zbh1-pipeline", is_zb);
  job.flag("--no-pipeline-parallel", parallel.pp == 1);
  if (parallel.pp > 1 && !job.has_even_stages()) {
    job.note(
        "Megatron-DeepSpeed gives every stage as many layers; here the last ones are shorter, "
        "because the head costs time, too");
  }
  if (!has_pp_outermost(parallel)) {
    job.note(
        "Megatron-DeepSpeed places pp outermost, outside dp: its neighbours in the pipeline "
        "may lie on other nodes than here");
  }
}

void write_deepspeed_context(JobWriter& job) {
  const ParallelConfig& parallel = job.config().parallel;
  job.require(parallel.cp == 1 || parallel.context == ContextExchange::AllToAll, "parallel.context",
              "its sequence parallelism exchanges heads", "use \"all_to_all\"");
  job.require(parallel.cp == 1 || (parallel.tp == 1 && parallel.pp == 1), "parallel.cp",
              "it excludes tp and pp", "set parallel.tp and parallel.pp to 1");
}

// Experts of every layer where layers differ: one stands for an MLP without a router.
std::string experts_of_layers(const ModelConfig& model) {
  if (model.dense_layers == 0) return std::to_string(model.experts);
  std::string text;
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    text +=
        fmt::format("{}{}", layer == 0 ? "" : " ", layer < model.dense_layers ? 1 : model.experts);
  }
  return text;
}

void write_deepspeed_model(JobWriter& job) {
  const ModelConfig& model = job.config().model;
  job.rows("model.");
  job.set("--vocab-size", model.vocab_size);
  job.set("--tokenizer-type", std::string("NullTokenizer"));
  job.set("--make-vocab-size-divisible-by", int64_t{1});
  job.set("--max-position-embeddings", model.seq_len);
  job.flag("--swiglu", model.activation == ActivationChoice::Swiglu);
  job.flag("--squared-relu", model.activation == ActivationChoice::Relu2);
  job.flag("--no-bias-gelu-fusion", model.activation == ActivationChoice::GeluErf);
  job.require(model.activation != ActivationChoice::Relu, "model.activation",
              "it has gelu, squared ReLU and SwiGLU", "use \"relu2\" or \"gelu_tanh\"");
  if (model.positions == PositionsChoice::Rope) {
    job.flag("--use-rotary-position-embeddings", true);
    job.set("--rotary-position-embeddings-theta", model.rope_theta);
  }
  job.set("--hidden-dropout", model.dropout);
  job.set("--attention-dropout", model.dropout);
  if (!job.has_experts()) return;
  job.set("--num-experts", experts_of_layers(model));
  job.set("--expert-interval", int64_t{1});
  job.require(model.dense_layers == 0 || model.dense_d_ff == model.d_ff, "model.dense_d_ff",
              fmt::format("its layers without experts are as wide as an expert, {}", model.d_ff),
              fmt::format("set it to {}, or model.dense_layers = 0", model.d_ff));
  job.require(model.top_k <= 2, "model.top_k", "its tokens visit one or two experts", "use 1 or 2");
  job.set("--topk", model.top_k);
  job.set("--moe-expert-parallel-size", int64_t{job.config().parallel.ep});
  job.set("--moe-loss-coeff", model.aux_loss);
  job.flag("--disable-moe-token-dropping", model.capacity_factor == 0.0);
  if (model.capacity_factor > 0.0) job.set("--moe-train-capacity-factor", model.capacity_factor);
}

void write_deepspeed_batch(JobWriter& job) {
  const RunConfig& config = job.config();
  job.set("train_micro_batch_size_per_gpu", config.batch.micro_sequences);
  job.set("gradient_accumulation_steps", job.num_microbatches());
  job.set("train_batch_size", config.batch.global_sequences);
  job.set("--micro-batch-size", config.batch.micro_sequences);
  job.set("--global-batch-size", config.batch.global_sequences);
  job.set("--train-iters", config.run.steps);
}

void write_deepspeed_precision(JobWriter& job) {
  const ComputeChoice compute = job.config().precision.compute;
  const bool is_bf16 = compute == ComputeChoice::Bf16, is_fp16 = compute == ComputeChoice::Fp16;
  job.set("bf16.enabled", is_bf16);
  job.set("fp16.enabled", is_fp16);
  job.set("data_types.grad_accum_dtype", std::string("fp32"));
  job.flag("--bf16", is_bf16);
  job.flag("--fp16", is_fp16);
  const Recompute recompute = job.config().memory.recompute;
  job.require(recompute != Recompute::Selective, "memory.recompute",
              "it recomputes whole layers or nothing", "use \"full\" or \"none\"");
  if (recompute != Recompute::Full) return;
  job.flag("--deepspeed-activation-checkpointing", true);
  job.set("--recompute-granularity", std::string("full"));
  job.set("--recompute-method", std::string("uniform"));
}

ForeignJob settings_of(const JobWriter& job, bool is_flag) {
  ForeignJob part;
  for (const ForeignSetting& setting : job.job().settings()) {
    if (setting.key.starts_with("--") == is_flag) part.set(setting.key, setting.value);
  }
  return part;
}

std::string deepspeed_script_text(const JobWriter& job, const std::string& config_file) {
  const Nodes nodes = nodes_of(job.num_ranks());
  return fmt::format(
      "#!/usr/bin/env bash\n# Layout of `trireme plan` for Megatron-DeepSpeed.\n\n"
      "ARGS=(\n{}  --deepspeed\n  --deepspeed_config \"$(dirname \"$0\")/{}\"\n"
      "  --zero-stage {}\n)\n\n"
      "deepspeed --num_nodes {} --num_gpus {} pretrain_gpt.py \"${{ARGS[@]}}\" \"$@\"\n",
      argument_lines(settings_of(job, true)),
      std::filesystem::path(config_file).filename().string(), job.config().parallel.zero,
      nodes.count, nodes.ranks);
}

}  // namespace

Result<ExportedJob> export_deepspeed(const ExportRequest& request) {
  if (const std::string ending = ending_of(request.path); !ending.empty() && ending != ".json") {
    return usage(
        fmt::format("{}: DeepSpeed reads JSON; use the ending .json (the flags of "
                    "Megatron-DeepSpeed are written beside it, as .sh)",
                    request.path));
  }
  JobWriter job(request, deepspeed_keys());
  write_deepspeed_batch(job);
  write_deepspeed_zero(job);
  write_deepspeed_precision(job);
  job.rows("optim.");
  job.rows("parallel.");
  write_deepspeed_pipeline(job);
  write_deepspeed_context(job);
  write_deepspeed_model(job);
  TRIREME_TRY_DONE(job.status());
  const std::string script = with_ending(request.path, ".sh");
  const std::string config_file = request.path.empty() ? "ds_config.json" : request.path;
  return ExportedJob{{{request.path, json_text(settings_of(job, false))},
                      {script, deepspeed_script_text(job, config_file)}},
                     std::move(job.notes())};
}

}  // namespace trireme
