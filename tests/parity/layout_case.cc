#include "layout_case.h"

#include <fmt/format.h>

#include <map>

#include "base/check.h"
#include "planner/make_plan.h"

namespace trireme {

std::string Case::name() const {
  return fmt::format(
             "{} {} tp {}{} cp {} {} ep {} dp {} pp {} {} zero {} hsdp {} recompute {} dropout {} "
             "offload "
             "{} "
             "bucket {} prefetch {} clip {}{}{}{}{} servers {} order {} layers {} sequences {} "
             "room {} "
             "kept {}{}{}{}{}",
             family, name_of(compute), tp, sequence ? " sequence" : "", cp, name_of(context), ep,
             dp, pp, name_of(schedule), zero, hsdp_shard, name_of(recompute), dropout,
             name_of(offload), bucket_bytes, prefetch, clip_norm,
             post_validate ? " post-validated" : "", is_wide ? " wide" : "",
             tp_overlap ? " overlapped" : "", in_slices ? " in slices" : "", servers, order, layers,
             sequences, room, int(kept), muon ? fmt::format(" muon {}", qk_clip) : "", frozen,
             lora_rank > 0 ? fmt::format(" lora {} {}", lora_rank, lora_targets) : "",
             document_mask ? " document mask" : "") +
         (stage_tp.empty() ? "" : " stage_tp " + stage_tp) +
         (stage_dp.empty() ? "" : " stage_dp " + stage_dp) +
         (stage_layers.empty() ? "" : " stage_layers " + stage_layers);
}

void keep_state(RunConfig& config, Kept kept) {
  OptimConfig& optim = config.optim;
  const bool has_bf16_grads = kept >= Kept::In16 && kept != Kept::In10;
  if (has_bf16_grads) optim.grad_dtype = StateChoice::Bf16;
  if (kept >= Kept::In12) optim.moment_dtype = StateChoice::Bf16;
  optim.master = kept < Kept::In10;
  if (kept == Kept::In6) optim.name = OptimizerKind::Sgd;
  // The visits of experts are counted in the place of a gradient, in fp32 alone.
  if (has_bf16_grads) config.model.balance_rate = 0.0;
}

RunConfig config_of(const Case& c) {
  RunConfig config;
  const bool has_experts = c.family.starts_with("moe");
  const bool is_llama = c.family.starts_with("llama"), is_gpt2 = c.family.starts_with("gpt2");
  config.model.family = is_llama      ? ModelFamily::Llama
                        : has_experts ? ModelFamily::Moe
                                      : ModelFamily::Gpt2;
  config.model.tied_head = is_gpt2;
  if (c.family == "gpt2_parallel") {
    config.model.parallel_block = true;
    config.model.activation = ActivationChoice::Relu2;
  }
  if (c.family == "llama_scaled") config.model.layer_scale = 0.5;
  if (has_experts) {
    config.model.d_ff = 8;
    config.model.experts = 4;
    config.model.shared_experts = 1;
    config.model.z_loss = 0.001;
    config.model.balance_rate = 0.01;
    if (c.family == "moe_capacity") config.model.capacity_factor = 1.0;
    if (c.family == "moe_dense_first") config.model.dense_layers = 1;
    if (c.family == "moe_all") config.model.top_k = config.model.experts;
  }
  if (c.family == "llama_qk_norm") {
    config.model.qk_norm = true;
    config.model.head_dim = 8;  // norms of fewer numbers are nearly signs
  }
  if (c.family == "llama_window") config.model.window = 3;
  if (c.family.ends_with("latent")) {
    config.model.head_dim = 4;
    config.model.kv_lora_rank = 6;
    config.model.q_lora_rank = c.family == "llama_latent" ? 0 : 5;
    config.model.qk_rope_head_dim = 2;
    config.model.v_head_dim = 3;
    config.model.rope_scaling = RopeScaling::Yarn;
    config.model.rope_scaling_factor = 4.0;
    config.model.rope_high_freq_factor = 32.0;
    config.model.rope_original_seq_len = 64;
  }
  if (c.family == "moe_latent") {
    config.model.router = RouterType::Sigmoid;
    config.model.z_loss = 0.0;
    config.model.dense_layers = 1;
    config.model.routed_scaling = 2.5;
  }
  if (c.family.ends_with("_mtp")) config.model.mtp_depth = 2;
  const bool has_latents = config.model.kv_lora_rank > 0;
  config.model.layers = c.layers;
  config.model.d_model = 8;
  config.model.heads = 2;
  if (is_llama && !has_latents)
    config.model.kv_heads = 1;  // both of two tensor-parallel ranks hold it
  if (c.is_wide) {
    config.model.d_model = 16;
    config.model.heads = 8;
    config.model.kv_heads = is_gpt2 || has_latents ? 8 : 4;
    if (has_experts && c.family != "moe_all") config.model.experts = 8;
  }
  config.model.vocab_size = 19;
  config.model.seq_len = c.is_wide ? 16 : 4;
  config.model.init_stddev = 0.2;
  config.model.dropout = c.dropout;
  config.data.source = DataSource::Synthetic;
  config.data.document_mask = c.document_mask;
  config.batch.global_sequences = c.sequences;
  config.batch.micro_sequences = 1;
  config.optim.clip_norm = c.clip_norm;
  config.optim.post_validate = c.post_validate;
  config.parallel.dp = c.dp;
  config.parallel.tp = c.tp;
  config.parallel.sequence = c.sequence;
  config.parallel.tp_overlap = c.tp_overlap;
  config.parallel.cp = c.cp;
  config.parallel.context = c.context;
  config.parallel.ep = c.ep;
  config.parallel.pp = c.pp;
  config.parallel.schedule = c.schedule;
  config.parallel.stage_tp = c.stage_tp;
  config.parallel.stage_dp = c.stage_dp;
  config.parallel.stage_layers = c.stage_layers;
  config.parallel.zero = c.zero;
  config.parallel.hsdp_shard = c.hsdp_shard;
  if (c.servers > 0) config.parallel.sync = GradSync::ParameterServer;
  config.parallel.servers = std::max(c.servers, 1);
  config.parallel.bucket_bytes = c.bucket_bytes;
  config.parallel.prefetch = c.prefetch;
  config.parallel.order = c.order;
  config.memory.recompute = c.recompute;
  config.memory.offload = c.offload;
  config.memory.offload_buffer_bytes = 4096;  // small, so that there are many pieces
  config.precision.compute = c.compute;
  keep_state(config, c.kept);
  if (c.muon) config.optim.name = OptimizerKind::Muon;
  config.optim.qk_clip = c.qk_clip;
  config.optim.frozen = c.frozen;
  config.model.lora_rank = c.lora_rank;
  config.model.lora_targets = c.lora_targets;
  config.run.reproducible = c.in_slices ? Reproducible::Mesh : Reproducible::Layout;
  config.run.threads_per_rank = 1;
  config.run.comm_timeout_s = 20.0;
  return config;
}

// The limit at which "fit" has part of the room between "full" and "none".
int64_t limit_of(Case c) {
  const auto bytes = [&](Recompute recompute) {
    c.recompute = recompute;
    return make_plan(config_of(c), {}).value().largest().memory.arena_bytes;
  };
  const int64_t least = bytes(Recompute::Full), most = bytes(Recompute::None);
  return least + int64_t(c.room * double(most - least));
}

RunPlan plan_of(const Case& c) {
  RunConfig config = config_of(c);
  if (c.recompute == Recompute::Fit) config.memory.limit_bytes = limit_of(c);
  Result<RunPlan> plan = make_plan(config, {});
  TRIREME_CHECK(plan.ok(), c.name() + ": " + plan.error().message);
  return *plan;
}

bool is_possible(const Case& c) { return make_plan(config_of(c), {}).ok(); }

// Wide models run only two steps, because there are many of them.
LayoutRun run_case(const Case& c) { return run_layout(plan_of(c), {.end = c.is_wide ? 2 : 5}); }

const LayoutRun& reference_of(const Case& c) {
  static std::map<std::string, LayoutRun> runs;
  Case one{.family = c.family,
           .compute = c.compute,
           .kept = c.kept,
           .dropout = c.dropout,
           .tp = c.tp,
           .sequence = c.sequence,
           .cp = c.cp,
           .context = c.context,
           .ep = c.ep,
           .clip_norm = c.clip_norm,
           .tp_overlap = c.tp_overlap,
           .in_slices = c.in_slices,
           .is_wide = c.is_wide,
           .layers = c.layers,
           .sequences = c.sequences,
           .muon = c.muon,
           .qk_clip = c.qk_clip,
           .frozen = c.frozen,
           .lora_rank = c.lora_rank,
           .lora_targets = c.lora_targets,
           .document_mask = c.document_mask};
  if (c.in_slices) {  // sums do not depend on tp
    one.tp = 1;
    one.tp_overlap = false;
  }
  if (c.ep > c.cp) {
    one.dp = c.dp;
    one.zero = c.zero >= 2 ? 2 : 0;
  }
  const auto [run, is_new] = runs.try_emplace(one.name());
  if (is_new) run->second = run_case(one);
  return run->second;
}

}  // namespace trireme
