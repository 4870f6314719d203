#include <fmt/format.h>

#include <cmath>

#include "jobs/export_forms.h"

namespace trireme {
namespace {

void write_megatron_model(JobWriter& job) {
  const ModelConfig& model = job.config().model;
  job.rows("model.");
  job.flag("--group-query-attention", model.kv_heads != model.heads);
  if (model.kv_heads != model.heads) job.set("--num-query-groups", model.kv_heads);
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
  const bool has_rope = model.positions == PositionsChoice::Rope;
  job.set("--position-embedding-type", std::string(has_rope ? "rope" : "learned_absolute"));
  job.set("--max-position-embeddings", model.seq_len);
  if (has_rope) {
    job.require(std::floor(model.rope_theta) == model.rope_theta && model.rope_theta < 1e15,
                "model.rope_theta", "--rotary-base is an integer", "round it");
    job.set("--rotary-base", static_cast<int64_t>(std::min(model.rope_theta, 1e15)));
  }
  job.flag("--use-rope-scaling", model.rope_scaling_factor != 1.0);
  if (model.rope_scaling_factor != 1.0) {
    job.set("--rope-scaling-factor", model.rope_scaling_factor);
  }
  job.set("--hidden-dropout", model.dropout);
  job.set("--attention-dropout", model.dropout);
}

void write_experts(JobWriter& job) {
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

// "Et*7|t*9|t*9|t*7L": E is the embedding, t a layer, L the head, | the end of a stage.
std::string layout_of(const std::vector<int64_t>& stage_layers) {
  std::string text = "E";
  for (size_t stage = 0; stage < stage_layers.size(); ++stage) {
    if (stage > 0) text += "|";
    if (stage_layers[stage] > 0) text += fmt::format("t*{}", stage_layers[stage]);
  }
  return text + "L";
}

void write_megatron_pipeline(JobWriter& job) {
  const ParallelConfig& parallel = job.config().parallel;
  const bool is_interleaved = parallel.schedule == ScheduleKind::Interleaved;
  job.require(is_interleaved || parallel.schedule == ScheduleKind::OneFOneB, "parallel.schedule",
              "it has 1f1b and interleaved pipelines", "use \"1f1b\" or \"interleaved\"");
  job.require(!is_interleaved || (parallel.pp > 1 && parallel.chunks > 1), "parallel.schedule",
              "its interleaved pipeline needs parallel.pp and parallel.chunks above 1",
              "use \"1f1b\"");
  if (!job.has_even_stages()) {
    job.require(!job.request().stage_layers.empty(), "parallel.pp",
                "it must divide model.layers where the stages are not given", "take a divisor");
    job.set("--pipeline-model-parallel-layout", layout_of(job.request().stage_layers));
  } else if (parallel.chunks > 1) {
    job.set("--num-virtual-stages-per-pipeline-rank", int64_t{parallel.chunks});
  }
}

// Megatron's own order is tp, cp, dp, pp, and its other one the usual order here.
void write_order(JobWriter& job) {
  const ParallelConfig& parallel = job.config().parallel;
  if (has_pp_outermost(parallel)) return;
  const Mesh ours = mesh_of(parallel);
  Mesh turned = ours;
  turned.order = kUsualOrder;
  const bool can_turn = are_numbered_alike(ours, turned) && parallel.zero < 2 &&
                        (!job.has_experts() || parallel.ep == parallel.cp);
  if (!can_turn) {
    return job.note(
        "Megatron-LM places pp outermost, outside dp: its neighbours in the pipeline may lie on "
        "other nodes than here");
  }
  job.flag("--use-tp-pp-dp-mapping", true);
  // It also compares the groups of the experts, which a dense model does not have.
  if (!job.has_experts() && parallel.cp > 1) {
    job.set("--expert-tensor-parallel-size", int64_t{parallel.tp} * parallel.cp);
  }
}

void write_megatron_zero(JobWriter& job) {
  const ParallelConfig& parallel = job.config().parallel;
  if (parallel.zero == 1) {
    for (const char* key :
         {"--use-distributed-optimizer", "--overlap-grad-reduce", "--overlap-param-gather"}) {
      job.flag(key, true);
    }
  } else if (parallel.zero > 1) {
    job.flag("--use-megatron-fsdp", true);
    job.set("--ckpt-format", std::string("fsdp_dtensor"));
    job.set("--data-parallel-sharding-strategy",
            std::string(parallel.zero == 2 ? "optim_grads" : "optim_grads_params"));
  }
  if (parallel.hsdp_shard == 0) return;
  const int64_t copies = int64_t{parallel.dp} * parallel.cp / parallel.hsdp_shard;
  const int64_t expert_dp = int64_t{parallel.dp} * parallel.cp / parallel.ep;
  job.require(expert_dp % copies == 0, "parallel.hsdp_shard",
              fmt::format("its {} copies must divide the {} ranks that have the same experts",
                          copies, expert_dp),
              "take larger shard groups");
  job.set("--num-distributed-optimizer-instances", copies);
}

void write_memory(JobWriter& job) {
  const MemoryConfig& memory = job.config().memory;
  if (memory.recompute == Recompute::Full) {
    job.set("--recompute-granularity", std::string("full"));
    job.set("--recompute-method", std::string("uniform"));
    job.set("--recompute-num-layers", int64_t{1});
  } else if (memory.recompute == Recompute::Selective) {
    job.set("--recompute-granularity", std::string("selective"));
    job.set("--recompute-modules",
            std::string(job.has_experts() ? "layernorm moe_act" : "layernorm"));
    job.note(
        "Megatron-LM's selective recomputation drops norms and the experts' activations: "
        "somewhat less than memory.recompute = \"selective\" drops here");
  }
  job.require(memory.offload != OffloadChoice::All, "memory.offload",
              "it offloads the optimizer alone", "use \"optimizer\" or \"none\"");
  if (memory.offload != OffloadChoice::Optimizer) return;
  job.require(job.config().parallel.zero == 1, "memory.offload",
              "it offloads the distributed optimizer only", "set parallel.zero = 1");
  job.flag("--optimizer-cpu-offload", true);
  job.flag("--use-precision-aware-optimizer", true);
}

std::string megatron_script_text(const JobWriter& job) {
  const ParallelConfig& parallel = job.config().parallel;
  const Nodes nodes = nodes_of(job.num_ranks());
  std::string text = "#!/usr/bin/env bash\n# Layout of `trireme plan` for Megatron-LM.\n";
  // It orders communication before computation; its FSDP wants several connections.
  const bool needs_order = (parallel.tp > 1 || parallel.cp > 1) && parallel.zero < 2;
  if (needs_order) text += "export CUDA_DEVICE_MAX_CONNECTIONS=1\n";
  text += fmt::format(
      "\nARGS=(\n{})\n\ntorchrun --nnodes {} --nproc-per-node {} pretrain_gpt.py \\\n"
      "  \"${{ARGS[@]}}\" \"$@\"\n",
      argument_lines(job.job()), nodes.count, nodes.ranks);
  return text;
}

}  // namespace

Result<ExportedJob> export_megatron(const ExportRequest& request) {
  JobWriter job(request, megatron_keys());
  job.rows("parallel.");
  write_megatron_pipeline(job);
  write_order(job);
  write_megatron_zero(job);
  job.rows("batch.");
  write_memory(job);
  job.rows("memory.");
  const ComputeChoice compute = job.config().precision.compute;
  job.flag("--bf16", compute == ComputeChoice::Bf16);
  job.flag("--fp16", compute == ComputeChoice::Fp16);
  write_megatron_model(job);
  write_experts(job);
  job.rows("optim.");
  if (job.config().optim.schedule == LrScheduleKind::Wsd && job.config().optim.decay_steps > 0) {
    job.set("--lr-wsd-decay-iters", job.config().optim.decay_steps);
  }
  job.set("--train-iters", job.config().run.steps);
  TRIREME_TRY_DONE(job.status());
  return ExportedJob{{{request.path, megatron_script_text(job)}}, std::move(job.notes())};
}

}  // namespace trireme
