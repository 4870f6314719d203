#include "jobs/key_pair.h"

namespace trireme {
namespace {

constexpr WordPair kMegatronNorms[] = {{"layer_norm", "LayerNorm"}, {"rms_norm", "RMSNorm"}};
constexpr WordPair kPositions[] = {{"learned", "learned_absolute"}, {"rope", "rope"}};
constexpr WordPair kOptimizers[] = {{"adamw", "adam"}, {"sgd", "sgd"}};
constexpr WordPair kDecays[] = {
    {"cosine", "cosine"}, {"linear", "linear"}, {"constant", "constant"}, {"wsd", "WSD"}};
constexpr WordPair kContexts[] = {{"ring", "p2p"}, {"all_to_all", "a2a"}};

// Megatron-LM d98e8a64: megatron/training/arguments.py and the dataclasses that it reads.
constexpr KeyPair kMegatronPairs[] = {
    {"model.family", Say::Code, "--num-experts --disable-bias-linear"},
    {"model.layers", Say::Same, "--num-layers"},
    {"model.d_model", Say::Same, "--hidden-size"},
    {"model.heads", Say::Same, "--num-attention-heads"},
    {"model.kv_heads", Say::Code, "--group-query-attention --num-query-groups"},
    {"model.head_dim", Say::Code, "--kv-channels --qk-head-dim"},
    {"model.d_ff", Say::Code, "--ffn-hidden-size --moe-ffn-hidden-size"},
    {"model.vocab_size", Say::Code, "--vocab-size --tokenizer-type --make-vocab-size-divisible-by"},
    {"model.seq_len", Say::Same, "--seq-length"},
    {"model.activation", Say::Code, "--swiglu --squared-relu --no-bias-gelu-fusion"},
    {"model.norm", Say::Same, "--normalization", "LayerNorm", {}, kMegatronNorms},
    {"model.positions",
     Say::Code,
     "--position-embedding-type --use-rotary-position-embeddings",
     {},
     {},
     kPositions},
    {"model.bias", Say::Code, "--disable-bias-linear"},
    {"model.norm_gain", Say::Only, {}, "true", "its norms have a gain"},
    {"model.parallel_block", Say::Only, {}, "false", "its blocks are serial"},
    {"model.layer_scale", Say::Only, {}, "0.0", "it has no layer scale"},
    {"model.embedding_norm", Say::Only, {}, "false", "it has no norm after the embedding"},
    {"model.final_norm", Say::Only, {}, "true", "a norm precedes its head"},
    {"model.tied_head", Say::NoFlag, "--untie-embeddings-and-output-weights"},
    {"model.norm_eps", Say::Same, "--norm-epsilon", "1e-5"},
    {"model.dropout", Say::Code, "--hidden-dropout --attention-dropout"},
    {"model.init_stddev", Say::Same, "--init-method-std", "0.02"},
    {"model.init_scale_residual",
     Say::Only,
     {},
     "true",
     "it always scales the projections onto the residual stream"},
    {"model.rope_theta", Say::Code, "--rotary-base"},
    {"model.rope_scaling_factor", Say::Code, "--use-rope-scaling --rope-scaling-factor"},
    {"model.rope_scaling", Say::Code, "--rope-type --rotary-scaling-factor"},
    {"model.rope_low_freq_factor", Say::Code, "--beta-slow"},
    {"model.rope_high_freq_factor", Say::Code, "--beta-fast"},
    {"model.rope_original_seq_len", Say::Code, "--original-max-position-embeddings"},
    {"model.rope_mscale", Say::Code, "--mscale --mscale-all-dim"},
    {"model.qk_norm", Say::Code, "--qk-layernorm"},
    {"model.window", Say::Code, "--window-size"},
    {"model.kv_lora_rank", Say::Code, "--multi-latent-attention --kv-lora-rank"},
    {"model.q_lora_rank", Say::Code, "--q-lora-rank"},
    {"model.qk_rope_head_dim", Say::Code, "--qk-pos-emb-head-dim"},
    {"model.v_head_dim", Say::Code, "--v-head-dim"},
    {"model.mtp_depth", Say::Code, "--mtp-num-layers"},
    {"model.mtp_loss_weight", Say::Code, "--mtp-loss-scaling-factor"},
    {"model.experts", Say::Code, "--num-experts"},
    {"model.top_k", Say::Code, "--moe-router-topk --moe-router-pre-softmax"},
    {"model.shared_experts", Say::Code, "--moe-shared-expert-intermediate-size"},
    {"model.dense_layers", Say::Code, "--moe-layer-freq"},
    {"model.dense_d_ff", Say::Code, "--ffn-hidden-size"},
    {"model.router", Say::Code, "--moe-router-score-function"},
    {"model.expert_groups", Say::Code, "--moe-router-num-groups"},
    {"model.top_groups", Say::Code, "--moe-router-group-topk"},
    {"model.routed_scaling", Say::Code, "--moe-router-topk-scaling-factor"},
    {"model.capacity_factor", Say::Code, "--moe-expert-capacity-factor --moe-token-drop-policy"},
    {"model.aux_loss", Say::Code, "--moe-aux-loss-coeff --moe-router-load-balancing-type"},
    {"model.z_loss", Say::Code, "--moe-z-loss-coeff"},
    {"model.balance_rate", Say::Code,
     "--moe-router-enable-expert-bias --moe-router-bias-update-rate"},
    {"batch.global_sequences", Say::Same, "--global-batch-size", "0"},
    {"batch.micro_sequences", Say::Same, "--micro-batch-size"},
    {"optim.name", Say::Same, "--optimizer", "adam", {}, kOptimizers},
    {"optim.lr", Say::Same, "--lr"},
    {"optim.min_lr", Say::Same, "--min-lr"},
    {"optim.beta1", Say::Same, "--adam-beta1", "0.9"},
    {"optim.beta2", Say::Same, "--adam-beta2", "0.999"},
    {"optim.eps", Say::Same, "--adam-eps", "1e-8"},
    {"optim.weight_decay", Say::Same, "--weight-decay", "0.01"},
    {"optim.momentum", Say::Same, "--sgd-momentum", "0.9"},
    {"optim.schedule", Say::Same, "--lr-decay-style", "linear", {}, kDecays},
    {"optim.warmup_steps", Say::Same, "--lr-warmup-iters", "0"},
    {"optim.decay_steps", Say::Code, "--lr-wsd-decay-iters"},
    {"optim.clip_norm", Say::Same, "--clip-grad", "1.0"},
    {"parallel.dp", Say::Code, "--nnodes --nproc-per-node"},
    {"parallel.tp", Say::Same, "--tensor-model-parallel-size", "1"},
    {"parallel.pp", Say::Same, "--pipeline-model-parallel-size", "1"},
    {"parallel.cp", Say::Same, "--context-parallel-size", "1"},
    {"parallel.ep", Say::Same, "--expert-model-parallel-size", "1"},
    {"parallel.schedule", Say::Code},
    {"parallel.chunks", Say::Code,
     "--num-virtual-stages-per-pipeline-rank --num-layers-per-virtual-pipeline-stage "
     "--pipeline-model-parallel-layout"},
    {"parallel.stage_layers", Say::Code,
     "--decoder-first-pipeline-num-layers --decoder-last-pipeline-num-layers "
     "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split"},
    {"parallel.zero", Say::Code,
     "--use-distributed-optimizer --use-megatron-fsdp --data-parallel-sharding-strategy "
     "--use-torch-fsdp2"},
    {"parallel.hsdp_shard", Say::Code, "--num-distributed-optimizer-instances"},
    {"parallel.sync", Say::Only, {}, "\"all_reduce\"", "it has no parameter servers"},
    {"parallel.servers", Say::Only, {}, "1", "it has no parameter servers"},
    {"parallel.sequence", Say::Flag, "--sequence-parallel"},
    {"parallel.context", Say::Same, "--cp-comm-type", "p2p", {}, kContexts},
    {"memory.recompute", Say::Code,
     "--recompute-granularity --recompute-method --recompute-num-layers --recompute-modules "
     "--recompute-activations"},
    {"memory.offload", Say::Code, "--optimizer-cpu-offload"},
    {"precision.compute", Say::Code, "--bf16 --fp16"},
};

}  // namespace

KeyTable megatron_keys() {
  static const std::vector<KeyPair> table = with_usual_keys(kMegatronPairs);
  return table;
}

}  // namespace trireme
