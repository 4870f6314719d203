#include <algorithm>

#include "jobs/export_job.h"
#include "schema/batch.h"
#include "schema/model_spec.h"
#include "schema/schedule_shape.h"

namespace trireme {
namespace {

ActivationChoice activation_of(MlpType mlp) {
  switch (mlp) {
    case MlpType::GeluTanh:
      return ActivationChoice::GeluTanh;
    case MlpType::GeluErf:
      return ActivationChoice::GeluErf;
    case MlpType::Relu:
      return ActivationChoice::Relu;
    case MlpType::Relu2:
      return ActivationChoice::Relu2;
    case MlpType::Swiglu:
      return ActivationChoice::Swiglu;
  }
  return ActivationChoice::Swiglu;
}

void spell_out_model(ModelConfig& model) {
  const ModelConfig usual;
  const ModelSpec spec = with_defaults(model, 0);
  model.preset.clear();
  model.kv_heads = spec.kv_heads;
  model.head_dim = spec.head_dim;
  model.d_ff = spec.d_ff;
  model.activation = activation_of(spec.mlp);
  model.norm = spec.norm == NormType::RmsNorm ? NormChoice::RmsNorm : NormChoice::LayerNorm;
  model.positions = spec.rope ? PositionsChoice::Rope : PositionsChoice::Learned;
  model.bias = spec.bias;
  model.dense_d_ff = spec.dense_d_ff;
  if (!spec.rope) model.rope_theta = usual.rope_theta;
  model.v_head_dim = spec.has_latents() ? spec.v_head_dim : usual.v_head_dim;
  if (!spec.has_latents()) {
    model.q_lora_rank = usual.q_lora_rank;
    model.qk_rope_head_dim = usual.qk_rope_head_dim;
  }
  if (!spec.rope || model.rope_scaling_factor == 1.0) {
    model.rope_scaling = usual.rope_scaling;
    model.rope_mscale = usual.rope_mscale;
    model.rope_scaling_factor = usual.rope_scaling_factor;
    model.rope_low_freq_factor = usual.rope_low_freq_factor;
    model.rope_high_freq_factor = usual.rope_high_freq_factor;
    model.rope_original_seq_len = usual.rope_original_seq_len;
  }
  if (model.lora_rank == 0) {
    model.lora_alpha = usual.lora_alpha;
    model.lora_targets = usual.lora_targets;
  }
  if (model.mtp_depth == 0) model.mtp_loss_weight = usual.mtp_loss_weight;
  if (model.family == ModelFamily::Moe) return;
  model.experts = usual.experts;
  model.top_k = usual.top_k;
  model.shared_experts = usual.shared_experts;
  model.dense_layers = usual.dense_layers;
  model.dense_d_ff = usual.dense_d_ff;
  model.router = usual.router;
  model.expert_groups = usual.expert_groups;
  model.top_groups = usual.top_groups;
  model.routed_scaling = usual.routed_scaling;
  model.capacity_factor = usual.capacity_factor;
  model.aux_loss = usual.aux_loss;
  model.z_loss = usual.z_loss;
  model.balance_rate = usual.balance_rate;
}

void spell_out_layout(ParallelConfig& parallel) {
  if (parallel.schedule != ScheduleKind::Auto && parallel.chunks == 0) {
    parallel.chunks = default_chunks(parallel.schedule);
  }
  parallel.sequence = parallel.sequence && parallel.tp > 1;
  if (parallel.cp == 1) parallel.context = ContextExchange::Ring;
  // A shard group of one rank has everything.
  if (parallel.dp == 1 || parallel.hsdp_shard == 1) parallel.zero = 0;
  if (parallel.zero == 0 || parallel.hsdp_shard == parallel.dp) parallel.hsdp_shard = 0;
}

}  // namespace

RunConfig spelled_out(const RunConfig& config) {
  RunConfig spelled = config;
  spell_out_model(spelled.model);
  spell_out_layout(spelled.parallel);
  spelled.batch.global_sequences = sequences_of_step(config);
  spelled.batch.global_tokens = 0;
  const OptimConfig usual;
  if (spelled.optim.name != OptimizerKind::Sgd) spelled.optim.momentum = usual.momentum;
  if (spelled.optim.name != OptimizerKind::Muon) {
    spelled.optim.muon_momentum = usual.muon_momentum;
  }
  if (spelled.optim.schedule != LrScheduleKind::Wsd) spelled.optim.decay_steps = usual.decay_steps;
  if (spelled.precision.compute != ComputeChoice::Fp16)
    spelled.precision = {config.precision.compute};
  return spelled;
}

}  // namespace trireme
