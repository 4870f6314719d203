#include "jobs/key_pair.h"

namespace trireme {
namespace {

constexpr WordPair kDeepspeedNorms[] = {{"layer_norm", "layernorm"}, {"rms_norm", "rmsnorm"}};
constexpr std::string_view kDeepspeedServers = "it has no parameter servers";

// Keys with -- are flags of Megatron-DeepSpeed (4efb479d), the others of ds_config.json
// (DeepSpeed edaa7221).
constexpr KeyPair kDeepspeedPairs[] = {
    {"model.family", Say::Code, "--num-experts --disable-bias-linear"},
    {"model.layers", Say::Same, "--num-layers"},
    {"model.d_model", Say::Same, "--hidden-size"},
    {"model.heads", Say::Same, "--num-attention-heads"},
    {"model.kv_heads", Say::Same, "--num-key-value-heads"},
    {"model.head_dim", Say::Same, "--kv-channels"},
    {"model.d_ff", Say::Same, "--ffn-hidden-size"},
    {"model.vocab_size", Say::Code, "--vocab-size --tokenizer-type --make-vocab-size-divisible-by"},
    {"model.seq_len", Say::Same, "--seq-length"},
    {"model.activation", Say::Code, "--swiglu --squared-relu --no-bias-gelu-fusion"},
    {"model.norm", Say::Same, "--normalization", {}, {}, kDeepspeedNorms},
    {"model.positions", Say::Code, "--use-rotary-position-embeddings"},
    {"model.bias", Say::NoFlag, "--disable-bias-linear"},
    {"model.norm_gain", Say::Only, {}, "true", "its norms have a gain"},
    {"model.parallel_block", Say::Only, {}, "false", "its blocks are serial"},
    {"model.layer_scale", Say::Only, {}, "0.0", "it has no layer scale"},
    {"model.embedding_norm", Say::Only, {}, "false", "it has no norm after the embedding"},
    {"model.final_norm", Say::Only, {}, "true", "a norm precedes its head"},
    {"model.tied_head", Say::NoFlag, "--untie-embeddings-and-output-weights"},
    {"model.norm_eps", Say::Same, "--layernorm-epsilon"},
    {"model.dropout", Say::Code, "--hidden-dropout --attention-dropout"},
    {"model.init_stddev", Say::Same, "--init-method-std"},
    {"model.init_scale_residual",
     Say::Only,
     {},
     "true",
     "it always scales the projections onto the residual stream"},
    {"model.rope_theta", Say::Code, "--rotary-position-embeddings-theta"},
    {"model.rope_scaling_factor", Say::Only, {}, "1.0", "it does not stretch rotary positions"},
    {"model.rope_low_freq_factor", Say::Only, {}, "1.0", "it does not stretch rotary positions"},
    {"model.rope_high_freq_factor", Say::Only, {}, "4.0", "it does not stretch rotary positions"},
    {"model.rope_original_seq_len", Say::Only, {}, "8192", "it does not stretch rotary positions"},
    {"model.experts", Say::Code, "--num-experts --expert-interval"},
    {"model.top_k", Say::Code, "--topk"},
    {"model.shared_experts", Say::Only, {}, "0", "it has no shared experts"},
    {"model.dense_layers", Say::Code, "--num-experts"},
    {"model.dense_d_ff", Say::Code},
    {"model.router", Say::Only, {}, "\"softmax\"", "its router is a softmax"},
    {"model.expert_groups", Say::Only, {}, "1", "it has no groups of experts"},
    {"model.top_groups", Say::Only, {}, "1", "it has no groups of experts"},
    {"model.capacity_factor", Say::Code,
     "--moe-train-capacity-factor --disable-moe-token-dropping"},
    {"model.aux_loss", Say::Code, "--moe-loss-coeff"},
    {"model.z_loss", Say::Only, {}, "0.0", "it has no loss of router logits"},
    {"model.balance_rate", Say::Only, {}, "0.0", "its router has no bias"},
    {"batch.global_sequences", Say::Code, "train_batch_size --global-batch-size"},
    {"batch.micro_sequences", Say::Code,
     "train_micro_batch_size_per_gpu --micro-batch-size gradient_accumulation_steps"},
    {"optim.name", Say::Only, {}, "\"adamw\"", "the job that we write has AdamW"},
    {"optim.lr", Say::Same, "--lr"},
    {"optim.min_lr", Say::Same, "--min-lr"},
    {"optim.beta1", Say::Same, "--adam-beta1"},
    {"optim.beta2", Say::Same, "--adam-beta2"},
    {"optim.eps", Say::Same, "--adam-eps"},
    {"optim.weight_decay", Say::Same, "--weight-decay"},
    {"optim.momentum", Say::Tuning},
    {"optim.schedule", Say::Tuning},
    {"optim.warmup_steps", Say::Tuning},
    {"optim.decay_steps", Say::Tuning},
    {"optim.clip_norm", Say::Same, "gradient_clipping", "0.0"},
    {"parallel.dp", Say::Code, "train_batch_size"},
    {"parallel.tp", Say::Same, "--tensor-model-parallel-size"},
    {"parallel.pp", Say::Same, "--pipeline-model-parallel-size"},
    {"parallel.cp", Say::Same, "--ds-sequence-parallel-size"},
    {"parallel.ep", Say::Code, "--moe-expert-parallel-size"},
    {"parallel.schedule", Say::Code, "--enable-zbh1-pipeline --no-pipeline-parallel"},
    {"parallel.chunks", Say::Only, {}, "1", "its ranks have one stage each"},
    {"parallel.zero", Say::Code, "zero_optimization.stage --zero-stage"},
    {"parallel.hsdp_shard", Say::Code, "zero_optimization.mics_shard_size"},
    {"parallel.sync", Say::Only, {}, "\"all_reduce\"", kDeepspeedServers},
    {"parallel.servers", Say::Only, {}, "1", kDeepspeedServers},
    {"parallel.sequence", Say::Flag, "--sequence-parallel"},
    {"parallel.context", Say::Code, "--ds-sequence-parallel-size"},
    {"memory.recompute", Say::Code, "--recompute-granularity --deepspeed-activation-checkpointing"},
    {"memory.offload", Say::Code,
     "zero_optimization.offload_optimizer.device zero_optimization.offload_param.device"},
    {"precision.compute", Say::Code, "bf16.enabled fp16.enabled --bf16 --fp16"},
};

}  // namespace

KeyTable deepspeed_keys() {
  static const std::vector<KeyPair> table = with_usual_keys(kDeepspeedPairs);
  return table;
}

}  // namespace trireme
