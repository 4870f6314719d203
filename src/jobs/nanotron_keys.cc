#include "jobs/key_pair.h"

namespace trireme {
namespace {

constexpr std::string_view kNanotronBlock = "its model is a llama";
constexpr std::string_view kNanotronServers = "it has no parameter servers";
constexpr std::string_view kExperts = "its router is a softmax without groups, losses or drops";
constexpr std::string_view kRope = "its configuration has no such stretching";

// nanotron 2411b022: config/config.py, config/parallelism_config.py, config/models_config.py.
constexpr KeyPair kNanotronPairs[] = {
    {"model.family", Say::Code,
     "model.model_config.is_llama_config model.model_config.is_qwen2_config"},
    {"model.layers", Say::Same, "model.model_config.num_hidden_layers"},
    {"model.d_model", Say::Same, "model.model_config.hidden_size"},
    {"model.heads", Say::Same, "model.model_config.num_attention_heads"},
    {"model.kv_heads", Say::Same, "model.model_config.num_key_value_heads"},
    {"model.head_dim", Say::Code},
    {"model.d_ff", Say::Same, "model.model_config.intermediate_size"},
    {"model.vocab_size", Say::Same, "model.model_config.vocab_size"},
    {"model.seq_len", Say::Same, "tokens.sequence_length"},
    {"model.activation", Say::Only, {}, "\"swiglu\"", kNanotronBlock},
    {"model.norm", Say::Only, {}, "\"rms_norm\"", kNanotronBlock},
    {"model.positions", Say::Only, {}, "\"rope\"", kNanotronBlock},
    {"model.bias", Say::Only, {}, "false", kNanotronBlock},
    {"model.norm_gain", Say::Only, {}, "true", kNanotronBlock},
    {"model.parallel_block", Say::Only, {}, "false", kNanotronBlock},
    {"model.layer_scale", Say::Only, {}, "0.0", kNanotronBlock},
    {"model.embedding_norm", Say::Only, {}, "false", kNanotronBlock},
    {"model.final_norm", Say::Only, {}, "true", kNanotronBlock},
    {"model.tied_head", Say::Same, "model.model_config.tie_word_embeddings"},
    {"model.norm_eps", Say::Same, "model.model_config.rms_norm_eps"},
    {"model.dropout", Say::Only, {}, "0.0", "it has no dropout"},
    {"model.init_stddev", Say::Code, "model.init_method.std"},
    {"model.init_scale_residual", Say::Tuning},
    {"model.rope_theta", Say::Same, "model.model_config.rope_theta"},
    {"model.rope_scaling_factor", Say::Only, {}, "1.0", kRope},
    {"model.rope_low_freq_factor", Say::Only, {}, "1.0", kRope},
    {"model.rope_high_freq_factor", Say::Only, {}, "4.0", kRope},
    {"model.rope_original_seq_len", Say::Only, {}, "8192", kRope},
    {"model.experts", Say::Code, "model.model_config.moe_config.num_experts"},
    {"model.top_k", Say::Code, "model.model_config.moe_config.top_k"},
    {"model.shared_experts", Say::Only, {}, "0", "we write no shared experts for it"},
    {"model.dense_layers", Say::Only, {}, "0", "we write no layers without experts for it"},
    {"model.dense_d_ff", Say::Only, {}, "0", "we write no layers without experts for it"},
    {"model.router", Say::Only, {}, "\"softmax\"", kExperts},
    {"model.expert_groups", Say::Only, {}, "1", kExperts},
    {"model.top_groups", Say::Only, {}, "1", kExperts},
    {"model.capacity_factor", Say::Only, {}, "0.0", kExperts},
    {"model.aux_loss", Say::Code},
    {"model.z_loss", Say::Only, {}, "0.0", kExperts},
    {"model.balance_rate", Say::Only, {}, "0.0", kExperts},
    {"batch.global_sequences", Say::Code, "tokens.batch_accumulation_per_replica"},
    {"batch.micro_sequences", Say::Same, "tokens.micro_batch_size"},
    {"optim.name", Say::Only, {}, "\"adamw\"", "the job that we write has AdamW"},
    {"optim.lr", Say::Same, "optimizer.learning_rate_scheduler.learning_rate"},
    {"optim.min_lr", Say::Same, "optimizer.learning_rate_scheduler.min_decay_lr"},
    {"optim.beta1", Say::Same, "optimizer.optimizer_factory.adam_beta1"},
    {"optim.beta2", Say::Same, "optimizer.optimizer_factory.adam_beta2"},
    {"optim.eps", Say::Same, "optimizer.optimizer_factory.adam_eps"},
    {"optim.weight_decay", Say::Same, "optimizer.weight_decay"},
    {"optim.momentum", Say::Tuning},
    {"optim.schedule", Say::Tuning},
    {"optim.warmup_steps", Say::Same, "optimizer.learning_rate_scheduler.lr_warmup_steps"},
    {"optim.decay_steps", Say::Tuning},
    {"optim.clip_norm", Say::Same, "optimizer.clip_grad"},
    {"parallel.dp", Say::Same, "parallelism.dp"},
    {"parallel.tp", Say::Same, "parallelism.tp"},
    {"parallel.pp", Say::Same, "parallelism.pp"},
    {"parallel.cp", Say::Same, "parallelism.context_parallel_size"},
    {"parallel.ep", Say::Only, {}, "1", "its groups fit no expert parallelism"},
    {"parallel.schedule", Say::Code, "parallelism.pp_engine"},
    {"parallel.chunks", Say::Only, {}, "1", "its ranks have one stage each"},
    {"parallel.zero", Say::Code, "optimizer.zero_stage"},
    {"parallel.hsdp_shard", Say::Only, {}, "0", "it shards over all dp ranks"},
    {"parallel.sync", Say::Only, {}, "\"all_reduce\"", kNanotronServers},
    {"parallel.servers", Say::Only, {}, "1", kNanotronServers},
    {"parallel.sequence", Say::Code, "parallelism.tp_mode"},
    {"parallel.context", Say::Only, {}, "\"ring\"", "it passes keys and values around a ring"},
    {"memory.recompute", Say::Code, "parallelism.recompute_layer"},
    {"memory.offload", Say::Only, {}, "\"none\"", "it has no offload"},
    {"precision.compute", Say::Code, "model.dtype"},
};

}  // namespace

KeyTable nanotron_keys() {
  static const std::vector<KeyPair> table = with_usual_keys(kNanotronPairs);
  return table;
}

}  // namespace trireme
