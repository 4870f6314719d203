#include <algorithm>

#include "jobs/key_pair.h"

namespace trireme {
namespace {

// These rows hold for a trainer whose own table does not name the key.
constexpr KeyPair kUsualPairs[] = {
    {"model.preset", Say::Tuning},
    {"model.rope_scaling", Say::Only, {}, "\"llama3\"", kPlainRope},
    {"model.rope_mscale", Say::Only, {}, "1.0", kPlainRope},
    {"model.qk_norm", Say::Only, {}, "false", kPlainAttention},
    {"model.window", Say::Only, {}, "0", kPlainAttention},
    {"model.mtp_depth", Say::Only, {}, "0", kNextToken},
    {"model.mtp_loss_weight", Say::Only, {}, "0.3", kNextToken},
    {"model.kv_lora_rank", Say::Only, {}, "0", kPlainAttention},
    {"model.q_lora_rank", Say::Only, {}, "0", kPlainAttention},
    {"model.qk_rope_head_dim", Say::Only, {}, "0", kPlainAttention},
    {"model.v_head_dim", Say::Only, {}, "0", kPlainAttention},
    {"model.index_top_k", Say::Only, {}, "0", kPlainAttention},
    {"model.index_heads", Say::Only, {}, "0", kPlainAttention},
    {"model.index_head_dim", Say::Only, {}, "0", kPlainAttention},
    {"model.routed_scaling", Say::Only, {}, "1.0", kPlainWeights},
    {"model.lora_rank", Say::Only, {}, "0", kNoAdapters},
    {"model.lora_alpha", Say::Only, {}, "0.0", kNoAdapters},
    {"model.lora_targets", Say::Only, {}, "\"all\"", kNoAdapters},
    {"model.image_size", Say::Only, {}, "0", kNoImages},
    {"model.image_channels", Say::Only, {}, "3", kNoImages},
    {"model.width_factor", Say::Only, {}, "1", kNoImages},
    {"model.base_channels", Say::Only, {}, "0", kNoImages},
    {"model.widen_first_conv", Say::Only, {}, "true", kNoImages},
    {"model.batch_norm", Say::Only, {}, "\"micro_batch\"", kNoImages},
    {"batch.global_tokens", Say::Code},
    {"optim.muon_momentum", Say::Tuning},
    {"optim.qk_clip", Say::Only, {}, "0.0", "no head is scaled there"},
    {"optim.grad_dtype", Say::Only, {}, "\"fp32\"", "the job that we write sums gradients in fp32"},
    {"optim.moment_dtype", Say::Only, {}, "\"fp32\"", "the job that we write has fp32 moments"},
    {"optim.master", Say::Only, {}, "true", "the job that we write has fp32 master weights"},
    {"optim.post_validate", Say::Tuning},
    {"optim.frozen", Say::Only, {}, "\"\"", "the job that we write trains every parameter"},
    {"parallel.stage_tp", Say::Only, {}, "\"\"", kEvenStages},
    {"parallel.stage_dp", Say::Only, {}, "\"\"", kEvenStages},
    {"parallel.stage_layers", Say::Only, {}, "\"\"", kEvenStages},
    {"parallel.order", Say::Tuning},
    {"parallel.staleness", Say::Only, {}, "0", "its ranks step together"},
    {"parallel.tp_overlap", Say::Tuning},
    {"parallel.layers", Say::Only, {}, "[]", kUsualStrategies},
    {"parallel.pair", Say::Tuning},
    {"parallel.bucket_bytes", Say::Tuning},
    {"parallel.prefetch", Say::Tuning},
    {"memory.offload_folder", Say::Tuning},
    {"memory.offload_buffer_bytes", Say::Tuning},
    {"memory.limit_bytes", Say::Code},
    {"precision.loss_scale", Say::Tuning},
    {"precision.loss_scale_window", Say::Tuning},
};

}  // namespace

std::vector<KeyPair> with_usual_keys(KeyTable own) {
  std::vector<KeyPair> table(own.begin(), own.end());
  for (const KeyPair& usual : kUsualPairs) {
    const bool is_own = std::any_of(own.begin(), own.end(),
                                    [&](const KeyPair& pair) { return pair.ours == usual.ours; });
    if (!is_own) table.push_back(usual);
  }
  return table;
}

}  // namespace trireme
