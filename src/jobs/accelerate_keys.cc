#include "jobs/key_pair.h"

namespace trireme {
namespace {

constexpr std::string_view kAccelerateServers = "it has no parameter servers";

// Accelerate 16cb6eb8: utils/dataclasses.py, parallelism_config.py, commands/launch.py. The model,
// the batch and the optimizer are in the script that it launches: their rows say so.
constexpr KeyPair kAcceleratePairs[] = {
    {"model.preset", Say::Code},
    {"model.family", Say::Code},
    {"model.layers", Say::Code},
    {"model.d_model", Say::Code},
    {"model.heads", Say::Code},
    {"model.kv_heads", Say::Code},
    {"model.head_dim", Say::Code},
    {"model.d_ff", Say::Code},
    {"model.vocab_size", Say::Code},
    {"model.seq_len", Say::Code},
    {"model.activation", Say::Code},
    {"model.norm", Say::Code},
    {"model.positions", Say::Code},
    {"model.bias", Say::Code},
    {"model.norm_gain", Say::Code},
    {"model.parallel_block", Say::Code},
    {"model.layer_scale", Say::Code},
    {"model.embedding_norm", Say::Code},
    {"model.final_norm", Say::Code},
    {"model.tied_head", Say::Code},
    {"model.norm_eps", Say::Code},
    {"model.dropout", Say::Code},
    {"model.init_stddev", Say::Code},
    {"model.init_scale_residual", Say::Code},
    {"model.rope_theta", Say::Code},
    {"model.rope_scaling_factor", Say::Code},
    {"model.rope_low_freq_factor", Say::Code},
    {"model.rope_high_freq_factor", Say::Code},
    {"model.rope_original_seq_len", Say::Code},
    {"model.experts", Say::Code},
    {"model.top_k", Say::Code},
    {"model.shared_experts", Say::Code},
    {"model.dense_layers", Say::Code},
    {"model.dense_d_ff", Say::Code},
    {"model.router", Say::Code},
    {"model.expert_groups", Say::Code},
    {"model.top_groups", Say::Code},
    {"model.capacity_factor", Say::Code},
    {"model.aux_loss", Say::Code},
    {"model.z_loss", Say::Code},
    {"model.balance_rate", Say::Code},
    {"batch.global_sequences", Say::Code, "gradient_accumulation_steps"},
    {"batch.micro_sequences", Say::Code},
    {"optim.name", Say::Code},
    {"optim.lr", Say::Code},
    {"optim.min_lr", Say::Code},
    {"optim.beta1", Say::Code},
    {"optim.beta2", Say::Code},
    {"optim.eps", Say::Code},
    {"optim.weight_decay", Say::Code},
    {"optim.momentum", Say::Code},
    {"optim.muon_momentum", Say::Code},
    {"optim.qk_clip", Say::Code},
    {"optim.schedule", Say::Code},
    {"optim.warmup_steps", Say::Code},
    {"optim.decay_steps", Say::Code},
    {"optim.clip_norm", Say::Code},
    {"optim.grad_dtype", Say::Code},
    {"optim.moment_dtype", Say::Code},
    {"optim.master", Say::Code},
    {"optim.post_validate", Say::Code},
    {"parallel.dp", Say::Code,
     "parallelism_config.parallelism_config_dp_replicate_size "
     "parallelism_config.parallelism_config_dp_shard_size"},
    {"parallel.tp", Say::Same, "parallelism_config.parallelism_config_tp_size"},
    {"parallel.pp", Say::Only, {}, "1", "it has no pipelines"},
    {"parallel.cp", Say::Same, "parallelism_config.parallelism_config_cp_size"},
    {"parallel.ep", Say::Only, {}, "1", "it has no expert parallelism"},
    {"parallel.schedule", Say::Only, {}, "\"1f1b\"", "it has no pipelines"},
    {"parallel.chunks", Say::Only, {}, "1", "it has no pipelines"},
    {"parallel.stage_tp", Say::Only, {}, "\"\"", "it has no pipelines"},
    {"parallel.stage_dp", Say::Only, {}, "\"\"", "it has no pipelines"},
    {"parallel.stage_layers", Say::Only, {}, "\"\"", "it has no pipelines"},
    {"parallel.zero", Say::Code, "fsdp_config.fsdp_reshard_after_forward"},
    {"parallel.hsdp_shard", Say::Code, "parallelism_config.parallelism_config_dp_shard_size"},
    {"parallel.sync", Say::Only, {}, "\"all_reduce\"", kAccelerateServers},
    {"parallel.servers", Say::Only, {}, "1", kAccelerateServers},
    {"parallel.sequence", Say::Code},
    {"parallel.context", Say::Code, "parallelism_config.parallelism_config_cp_comm_strategy"},
    {"memory.recompute", Say::Code, "fsdp_config.fsdp_activation_checkpointing"},
    {"memory.offload", Say::Code, "fsdp_config.fsdp_offload_params"},
    {"precision.compute", Say::Code, "mixed_precision"},
};

}  // namespace

KeyTable accelerate_keys() {
  static const std::vector<KeyPair> table = with_usual_keys(kAcceleratePairs);
  return table;
}

}  // namespace trireme
