#include <fmt/format.h>

#include <algorithm>

#include "jobs/export_forms.h"

namespace trireme {
namespace {

void check_nanotron_layout(JobWriter& job) {
  const RunConfig& config = job.config();
  const ParallelConfig& parallel = config.parallel;
  const ModelConfig& model = config.model;
  job.require(parallel.zero < 2, "parallel.zero", "it shards the optimizer's state at most",
              "set parallel.zero = 1");
  const bool is_1f1b = parallel.schedule == ScheduleKind::OneFOneB;
  job.require(is_1f1b || parallel.schedule == ScheduleKind::Gpipe, "parallel.schedule",
              "it has 1f1b and gpipe", "use \"1f1b\" or \"gpipe\"");
  job.require(!is_1f1b || job.num_microbatches() >= parallel.pp - 1, "batch.global_sequences",
              fmt::format("its 1f1b needs {} micro-batches a step", parallel.pp - 1),
              "take more sequences a step, or parallel.schedule = \"gpipe\"");
  job.require(model.kv_heads >= parallel.tp, "parallel.tp",
              fmt::format("it must not exceed model.kv_heads = {} there", model.kv_heads),
              "take a smaller degree");
  job.require(model.head_dim * model.heads == model.d_model, "model.head_dim",
              "its heads are as wide as d_model together", "set model.head_dim = 0");
  job.require(config.memory.recompute != Recompute::Selective, "memory.recompute",
              "it recomputes whole layers or nothing", "use \"full\" or \"none\"");
  job.require(config.precision.compute != ComputeChoice::Fp16, "precision.compute",
              "it trains in bfloat16 and float32", "use \"bf16\"");
  job.require(model.family != ModelFamily::Gpt2 || !model.bias, "model.family",
              "its model is a llama", "use \"llama\"");
}

// Mixtures of experts and context parallelism are parts of its qwen2.
void write_nanotron_model(JobWriter& job) {
  const RunConfig& config = job.config();
  const bool is_qwen2 = job.has_experts() || config.parallel.cp > 1;
  const std::string root = "model.model_config.";
  job.set("model.dtype",
          std::string(config.precision.compute == ComputeChoice::Bf16 ? "bfloat16" : "float32"));
  job.set("model.init_method.std", config.model.init_stddev);
  job.set(root + (is_qwen2 ? "is_qwen2_config" : "is_llama_config"), true);
  job.rows("model.");
  job.set(root + "max_position_embeddings", config.model.seq_len);
  job.set(root + "hidden_act", std::string("silu"));
  if (is_qwen2) job.set(root + "attention_bias", false);
  if (config.parallel.cp > 1) {
    job.set(root + "_attn_implementation", std::string("llama3_ring_attention"));
    job.set(root + "ring_attn_heads_k_stride", int64_t{1});
  }
  if (!job.has_experts()) return;
  job.set(root + "moe_config.num_experts", config.model.experts);
  job.set(root + "moe_config.top_k", config.model.top_k);
  job.set(root + "moe_config.moe_hidden_size", config.model.d_ff);
  job.set(root + "moe_config.moe_intermediate_size", config.model.d_ff);
}

void write_parallelism(JobWriter& job) {
  const ParallelConfig& parallel = job.config().parallel;
  job.rows("parallel.");
  job.set("parallelism.expert_parallel_size", int64_t{1});
  job.set("parallelism.pp_engine",
          std::string(parallel.schedule == ScheduleKind::Gpipe ? "afab" : "1f1b"));
  job.set("parallelism.tp_mode", std::string(parallel.sequence ? "REDUCE_SCATTER" : "ALL_REDUCE"));
  job.set("parallelism.recompute_layer", job.config().memory.recompute == Recompute::Full);
  if (parallel.pp > 1) {
    job.note("nanotron splits the stages by its own estimate of their cost");
  }
  if (!has_pp_outermost(parallel)) {
    job.note(
        "nanotron places pp outermost, outside dp: its neighbours in the pipeline may lie on "
        "other nodes than here");
  }
}

// The sections of a file stand together.
ForeignJob in_sections(const ForeignJob& job) {
  ForeignJob sorted;
  for (const char* section : {"general.", "parallelism.", "tokens.", "model.", "optimizer."}) {
    for (const ForeignSetting& setting : job.settings()) {
      if (setting.key.starts_with(section)) sorted.set(setting.key, setting.value);
    }
  }
  return sorted;
}

}  // namespace

Result<ExportedJob> export_nanotron(const ExportRequest& request) {
  JobWriter job(request, nanotron_keys());
  const RunConfig& config = job.config();
  check_nanotron_layout(job);
  job.set("general.project", std::string("trireme"));
  job.set("general.run", std::string("exported"));
  job.set("general.seed", static_cast<int64_t>(config.run.seed % (uint64_t{1} << 31)));
  job.set("general.step", int64_t{0});
  write_parallelism(job);
  job.rows("memory.");
  job.rows("batch.");
  job.set("tokens.batch_accumulation_per_replica", job.num_microbatches());
  job.set("tokens.train_steps", config.run.steps);
  write_nanotron_model(job);
  job.set("optimizer.zero_stage", int64_t{config.parallel.zero});
  job.set("optimizer.accumulate_grad_in_fp32", true);
  job.set("optimizer.optimizer_factory.name", std::string("adamW"));
  job.set("optimizer.optimizer_factory.torch_adam_is_fused", true);
  for (const char* key : {"optim.beta1", "optim.beta2", "optim.eps"}) job.rows(key);
  for (const char* key : {"optim.lr", "optim.min_lr", "optim.warmup_steps"}) job.rows(key);
  for (const char* key : {"optim.weight_decay", "optim.clip_norm", "optim.name", "optim.frozen"}) {
    job.rows(key);
  }
  TRIREME_TRY_DONE(job.status());
  return ExportedJob{
      {{request.path,
        "# Layout of `trireme plan` for nanotron; add data_stages and checkpoints.\n" +
            yaml_text(in_sections(job.job()))}},
      std::move(job.notes())};
}

}  // namespace trireme
