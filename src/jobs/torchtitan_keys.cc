#include "jobs/key_pair.h"

namespace trireme {
namespace {

constexpr std::string_view kTorchtitanBlock = "its model is a llama";
constexpr std::string_view kTorchtitanServers = "it has no parameter servers";

// torchtitan b5bcd76c: torchtitan/config/configs.py; keys of v0.2.2 behind them. Keys of `model.`
// are parameters of the module that we write.
constexpr KeyPair kTorchtitanPairs[] = {
    {"model.family", Say::Code},
    {"model.layers", Say::Code, "n_layers"},
    {"model.d_model", Say::Code, "dim"},
    {"model.heads", Say::Code, "n_heads"},
    {"model.kv_heads", Say::Code, "n_kv_heads"},
    {"model.head_dim", Say::Code, "head_dim"},
    {"model.d_ff", Say::Code, "hidden_dim"},
    {"model.vocab_size", Say::Code, "vocab_size"},
    {"model.seq_len", Say::Code, "training.max_context_length training.seq_len"},
    {"model.activation", Say::Only, {}, "\"swiglu\"", kTorchtitanBlock},
    {"model.norm", Say::Only, {}, "\"rms_norm\"", kTorchtitanBlock},
    {"model.positions", Say::Only, {}, "\"rope\"", kTorchtitanBlock},
    {"model.bias", Say::Only, {}, "false", kTorchtitanBlock},
    {"model.norm_gain", Say::Only, {}, "true", kTorchtitanBlock},
    {"model.parallel_block", Say::Only, {}, "false", kTorchtitanBlock},
    {"model.layer_scale", Say::Only, {}, "0.0", kTorchtitanBlock},
    {"model.embedding_norm", Say::Only, {}, "false", kTorchtitanBlock},
    {"model.final_norm", Say::Only, {}, "true", kTorchtitanBlock},
    {"model.tied_head", Say::Code, "enable_weight_tying"},
    {"model.norm_eps", Say::Code, "eps"},
    {"model.dropout", Say::Only, {}, "0.0", "it has no dropout"},
    {"model.init_stddev", Say::Only, {}, "0.02", "its llama starts with this deviation"},
    {"model.init_scale_residual", Say::Only, {}, "true", "its llama scales by depth"},
    {"model.rope_theta", Say::Code, "theta"},
    {"model.rope_scaling_factor", Say::Code, "scaling scaling_factor"},
    {"model.rope_low_freq_factor", Say::Code, "low_freq_factor"},
    {"model.rope_high_freq_factor", Say::Code, "high_freq_factor"},
    {"model.rope_original_seq_len", Say::Code, "original_max_position_embeddings"},
    {"model.experts", Say::Code},
    {"model.top_k", Say::Code},
    {"model.shared_experts", Say::Code},
    {"model.dense_layers", Say::Code},
    {"model.dense_d_ff", Say::Code},
    {"model.router", Say::Code},
    {"model.expert_groups", Say::Code},
    {"model.top_groups", Say::Code},
    {"model.capacity_factor", Say::Only, {}, "0.0", "its experts drop no tokens"},
    {"model.aux_loss", Say::Code},
    {"model.z_loss", Say::Only, {}, "0.0", "it has no loss of router logits"},
    {"model.balance_rate", Say::Code},
    {"batch.global_sequences", Say::Code,
     "training.num_tokens_per_train_step training.global_batch_size"},
    {"batch.micro_sequences", Say::Code,
     "training.num_tokens_per_microbatch_per_dp_rank training.local_batch_size "
     "parallelism.pipeline_parallel_microbatch_size"},
    {"optim.name", Say::Only, {}, "\"adamw\"", "the job that we write has AdamW"},
    {"optim.lr", Say::Code, "optimizer.lr"},
    {"optim.min_lr", Say::Tuning},
    {"optim.beta1", Say::Tuning},
    {"optim.beta2", Say::Tuning},
    {"optim.eps", Say::Tuning},
    {"optim.weight_decay", Say::Tuning},
    {"optim.momentum", Say::Tuning},
    {"optim.schedule", Say::Tuning},
    {"optim.warmup_steps", Say::Tuning},
    {"optim.decay_steps", Say::Tuning},
    {"optim.clip_norm", Say::Same, "training.max_norm", "1.0"},
    {"parallel.dp", Say::Code,
     "parallelism.data_parallel_replicate_degree parallelism.data_parallel_shard_degree"},
    {"parallel.tp", Say::Same, "parallelism.tensor_parallel_degree", "1"},
    {"parallel.pp", Say::Same, "parallelism.pipeline_parallel_degree", "1"},
    {"parallel.cp", Say::Same, "parallelism.context_parallel_degree", "1"},
    {"parallel.ep", Say::Same, "parallelism.expert_parallel_degree", "1"},
    {"parallel.schedule", Say::Code, "parallelism.pipeline_parallel_schedule"},
    {"parallel.chunks", Say::Code, "parallelism.module_fqns_per_model_part"},
    {"parallel.stage_layers", Say::Code, "parallelism.module_fqns_per_model_part"},
    {"parallel.zero", Say::Code, "parallelism.fsdp_reshard_after_forward"},
    {"parallel.hsdp_shard", Say::Code, "parallelism.data_parallel_shard_degree"},
    {"parallel.sync", Say::Only, {}, "\"all_reduce\"", kTorchtitanServers},
    {"parallel.servers", Say::Only, {}, "1", kTorchtitanServers},
    {"parallel.sequence", Say::Code, "parallelism.enable_sequence_parallel"},
    {"parallel.context", Say::Code, "parallelism.context_parallel_rotate_method"},
    {"memory.recompute", Say::Code, "activation_checkpoint.mode"},
    {"memory.offload", Say::Code, "training.enable_cpu_offload"},
    {"precision.compute", Say::Code, "training.mixed_precision_param"},
};

}  // namespace

KeyTable torchtitan_keys() {
  static const std::vector<KeyPair> table = with_usual_keys(kTorchtitanPairs);
  return table;
}

}  // namespace trireme
