#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "jobs/export_megatron.h"

namespace trireme {
namespace {

// Beside latents Megatron-LM stretches positions by YaRN, elsewhere as Llama 3 does; each has some
// numbers fixed.
void write_stretch(JobWriter& job) {
  const ModelConfig& model = job.config().model;
  const bool has_latents = model.kv_lora_rank > 0;
  if (has_latents) job.set("--rope-type", std::string("yarn"));
  if (has_latents) job.set("--rotary-scaling-factor", model.rope_scaling_factor);
  if (model.rope_scaling_factor == 1.0) return;
  const bool is_yarn = model.rope_scaling == RopeScaling::Yarn;
  if (has_latents) {
    job.require(is_yarn, "model.rope_scaling", "beside latents it has YaRN alone",
                "use \"yarn\", or set model.rope_scaling_factor = 1.0");
    job.set("--mscale", model.rope_mscale);
    job.set("--mscale-all-dim", model.rope_mscale);
  } else {
    job.require(!is_yarn, "model.rope_scaling", "it has YaRN only beside latents",
                "use \"llama3\", or set model.rope_scaling_factor = 1.0");
    job.flag("--use-rope-scaling", true);
    job.set("--rope-scaling-factor", model.rope_scaling_factor);
  }
  const auto fixed = [&](std::string_view key, double value, double theirs) {
    job.require(value == theirs, key, "its scaling has this number fixed",
                fmt::format("set it to {}", theirs));
  };
  fixed("model.rope_low_freq_factor", model.rope_low_freq_factor, 1.0);
  fixed("model.rope_high_freq_factor", model.rope_high_freq_factor, has_latents ? 32.0 : 4.0);
  fixed("model.rope_original_seq_len", double(model.rope_original_seq_len),
        has_latents ? 4096.0 : 8192.0);
}

void write_positions(JobWriter& job) {
  const ModelConfig& model = job.config().model;
  const bool has_rope = model.positions == PositionsChoice::Rope;
  job.set("--position-embedding-type", std::string(has_rope ? "rope" : "learned_absolute"));
  job.set("--max-position-embeddings", model.seq_len);
  if (!has_rope) return;
  job.require(std::floor(model.rope_theta) == model.rope_theta && model.rope_theta < 1e15,
              "model.rope_theta", "--rotary-base is an integer", "round it");
  job.set("--rotary-base", static_cast<int64_t>(std::min(model.rope_theta, 1e15)));
  write_stretch(job);
}

void write_attention(JobWriter& job) {
  const ModelConfig& model = job.config().model;
  // Its window counts the keys before the query, ours the query's own, too.
  if (model.window > 0) job.set("--window-size", fmt::format("{},0", model.window - 1));
  if (model.kv_lora_rank == 0) {
    const bool has_groups = model.kv_heads != model.heads;
    job.flag("--group-query-attention", has_groups);
    if (has_groups) job.set("--num-query-groups", model.kv_heads);
    job.set("--kv-channels", model.head_dim);
    return job.flag("--qk-layernorm", model.qk_norm);
  }
  job.flag("--multi-latent-attention", true);
  job.flag("--qk-layernorm", true);  // of the latents
  job.set("--kv-lora-rank", model.kv_lora_rank);
  if (model.q_lora_rank > 0) job.set("--q-lora-rank", model.q_lora_rank);
  job.set("--qk-head-dim", model.head_dim);
  job.set("--qk-pos-emb-head-dim", model.qk_rope_head_dim);
  job.set("--v-head-dim", model.v_head_dim);
}

}  // namespace

void write_megatron_model(JobWriter& job) {
  const ModelConfig& model = job.config().model;
  job.rows("model.");
  job.set("--ffn-hidden-size", model.dense_layers > 0 ? model.dense_d_ff : model.d_ff);
  job.set("--vocab-size", model.vocab_size);
  job.set("--tokenizer-type", std::string("NullTokenizer"));
  job.set("--make-vocab-size-divisible-by", int64_t{1});
  job.flag("--swiglu", model.activation == ActivationChoice::Swiglu);
  job.flag("--squared-relu", model.activation == ActivationChoice::Relu2);
  // Its fused kernels add the bias to a GELU by tanh or to a SwiGLU.
  job.flag("--no-bias-gelu-fusion", model.activation == ActivationChoice::GeluErf ||
                                        model.activation == ActivationChoice::Relu2);
  job.require(model.activation != ActivationChoice::Relu, "model.activation",
              "it has gelu, squared ReLU and SwiGLU", "use \"relu2\" or \"gelu_tanh\"");
  // Its tanh form of GELU is the one that is fused with the bias.
  job.require(model.bias || model.activation != ActivationChoice::GeluTanh, "model.activation",
              "without biases its GELU is the exact one",
              "use \"gelu_erf\", or set model.bias = true");
  job.flag("--disable-bias-linear", !model.bias);
  job.require(model.bias || model.norm == NormChoice::RmsNorm, "model.norm",
              "its LayerNorm always has a bias", "use \"rms_norm\", or set model.bias = true");
  job.set("--hidden-dropout", model.dropout);
  job.set("--attention-dropout", model.dropout);
  write_positions(job);
  write_attention(job);
  if (model.mtp_depth == 0) return;
  job.set("--mtp-num-layers", model.mtp_depth);
  job.set("--mtp-loss-scaling-factor", model.mtp_loss_weight);
}

void write_megatron_experts(JobWriter& job) {
  const ModelConfig& model = job.config().model;
  const ParallelConfig& parallel = job.config().parallel;
  if (!job.has_experts()) return;
  job.set("--num-experts", model.experts);
  job.set("--moe-ffn-hidden-size", model.d_ff);
  if (model.dense_layers > 0) {
    job.set("--moe-layer-freq",
            fmt::format("([0]*{}+[1]*{})", model.dense_layers, model.layers - model.dense_layers));
  }
  job.set("--moe-router-topk", model.top_k);
  job.flag("--moe-router-pre-softmax", model.top_k == 1 && model.router == RouterType::Softmax);
  job.set("--moe-router-score-function", std::string(name_of(model.router)));
  job.set("--moe-router-load-balancing-type", std::string("seq_aux_loss"));
  job.set("--moe-aux-loss-coeff", model.aux_loss);
  if (model.z_loss > 0.0) job.set("--moe-z-loss-coeff", model.z_loss);
  if (model.shared_experts > 0) {
    job.set("--moe-shared-expert-intermediate-size", model.shared_experts * model.d_ff);
  }
  if (model.routed_scaling != 1.0) {
    job.set("--moe-router-topk-scaling-factor", model.routed_scaling);
  }
  if (model.expert_groups > 1) {
    job.set("--moe-router-num-groups", model.expert_groups);
    job.set("--moe-router-group-topk", model.top_groups);
  }
  job.require(model.balance_rate == 0.0 || model.router == RouterType::Sigmoid,
              "model.balance_rate", "its expert bias needs the sigmoid router",
              "set it to 0, or model.router = \"sigmoid\"");
  job.flag("--moe-router-enable-expert-bias", model.balance_rate > 0.0);
  if (model.balance_rate > 0.0) job.set("--moe-router-bias-update-rate", model.balance_rate);
  if (model.capacity_factor > 0.0) {
    job.set("--moe-expert-capacity-factor", model.capacity_factor);
    job.set("--moe-token-drop-policy", std::string("position"));
  }
  job.set("--moe-token-dispatcher-type", std::string("alltoall"));
  job.flag("--moe-grouped-gemm", true);
  job.set("--expert-tensor-parallel-size", int64_t{parallel.tp});
  job.require(parallel.tp == 1 || parallel.sequence, "parallel.sequence",
              "experts with tensor parallelism need sequence parallelism there",
              "set parallel.sequence = true");
}

}  // namespace trireme
