#include "graph/op_tensors.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/axis_part.h"
#include "graph/backward_reads.h"
#include "graph/image_tensors.h"
#include "graph/model_graphs.h"
#include "graph/op_placement.h"
#include "schema/convolution_scratch.h"

namespace trireme {
namespace {

constexpr int64_t kIndexTileTokens = 64;

// Legend: T tokens of a micro-batch, R of them those of this rank's residual stream, C d_model, Q
// q_width or o_width, H heads, V vocabulary, all as this tensor-parallel rank has them.
class TensorLister {
 public:
  TensorLister(const Graph& graph, const Op& op, const ModelShard& shard, const StageShape& shape)
      : graph_(graph), op_(op), model_(shard), shape_(shape), tokens_(shard, shape) {}

  std::vector<OpTensor> run() {
    switch (op_.kind) {
      case OpKind::Lookup:
        if (op_.ahead > 0) {
          add(ahead_prefix(op_) + "tokens_T", Shape{tokens_.all}, DType::I32, Lifetime::Kept);
        }
        break;
      case OpKind::Norm:
        add_statistics();
        break;
      case OpKind::Linear:
        add_sums();
        add_adapters();
        break;
      case OpKind::Rope:
        add_rotations();
        break;
      case OpKind::Concat:
        add_shared_gradient();
        break;
      case OpKind::ChooseKeys:
        add_choice_of_keys();
        break;
      case OpKind::Attention:
        add_attention();
        break;
      case OpKind::LatentAttention:
        add_latent_attention();
        break;
      case OpKind::Route:
        add_route();
        break;
      case OpKind::Dispatch:
        add_exchange();
        break;
      case OpKind::CrossEntropy:
        add_loss();
        break;
      case OpKind::Convolution:
        add_convolution();
        break;
      case OpKind::BatchNorm:
        add_batch_norm();
        break;
      case OpKind::Redistribute:
        add_image_scratch();
        break;
      default:
        break;
    }
    return std::move(tensors_);
  }

 private:
  void add(std::string name, const Shape& shape, DType dtype, Lifetime lifetime) {
    tensors_.push_back({std::move(name), shape, dtype, lifetime});
  }

  void add_statistics() {
    const bool is_split =
        graph_.values[size_t(op_.inputs.front())].placement.tp == Placement::shard(0);
    const int64_t rows = (is_split ? tokens_.residual : tokens_.all) * num_norms();
    if (model_.norm == NormType::LayerNorm) {
      add(op_.name + ".mean_T", Shape{rows}, DType::F32, Lifetime::Forward);
    }
    add(op_.name + ".rstd_T", Shape{rows}, DType::F32, Lifetime::Forward);
  }

  // Returns the number of norms of a token: one for every head of this rank, or one for all
  // columns.
  int64_t num_norms() const {
    const std::vector<Dim>& dims = graph_.values[size_t(op_.inputs.front())].dims;
    return dims.size() > 2 ? part_of(dims[1], model_).count : 1;
  }

  // Where addends of a sum over slices, or over ranks piece by piece, wait for the others.
  void add_sums() {
    if (tokens_.is_split && shape_.tp_overlap) {  // the largest part of a rank
      const Shape part{balanced_count(tokens_.all, shape_.tp, 0), model_.d_model};
      add("edge.sum_RC", part, shape_.compute, Lifetime::Scratch);
    }
    add_slice_sums();
  }
  void add_slice_sums() {
    const Shape TC{tokens_.all, model_.d_model};
    const int slices = std::max(op_.slices.forward, op_.slices.backward);
    for (int level = 0; 1 << level < slices; ++level) {
      add(slice_sum_name(level), TC, shape_.compute, Lifetime::Scratch);
    }
  }

  // Between the two matrices of an adapter; W computes it again. All adapters take turns.
  void add_adapters() {
    if (op_.adapters.empty()) return;
    add(kAdapterScale, Shape{model_.lora_rank}, shape_.compute, Lifetime::Constant);
    add(kAdapterInner, Shape{tokens_.all, model_.lora_rank}, shape_.compute, Lifetime::Scratch);
  }

  void add_rotations() {
    // Positions within a document may be any of the sequence's.
    const int64_t positions = shape_.documents ? model_.seq_len : model_.local_len();
    const Shape SD{positions, model_.rope_dim() / 2};
    add("rope.cos_SD", SD, DType::F32, Lifetime::Constant);
    add("rope.sin_SD", SD, DType::F32, Lifetime::Constant);
  }

  // Adds the gradient of the part that all heads share.
  void add_shared_gradient() {
    const Value& shared = graph_.values[size_t(op_.inputs.back())];
    const int64_t cols = part_of(shared.column_dims(), model_).count;
    add(op_.name + ".shared_grad_Tp", Shape{tokens_.all, cols}, DType::F32, Lifetime::Scratch);
  }

  // What is chosen is kept, so that no recomputation can choose other keys. Scores are made tile by
  // tile. A rank of a ring has the indexer's keys of all tokens, and their gradients.
  void add_choice_of_keys() {
    const int64_t T = tokens_.all, S = model_.seq_len;
    const Value& chosen = graph_.values[size_t(op_.outputs.front())];
    add(op_.name + ".key_TG", Shape{T, chosen.dims.back().extent}, DType::I32, Lifetime::Kept);
    add(op_.name + ".score_tS", Shape{std::min(T, kIndexTileTokens), S}, DType::F32,
        Lifetime::Scratch);
    if (context_strategy(shape_) == ContextStrategy::WholeSequences) return;
    const Shape NJ{T * shape_.cp, model_.index_head_dim};
    add("index.key_NJ", NJ, shape_.compute, Lifetime::Constant);
    add("index.dkey_NJ", NJ, DType::F32, Lifetime::Constant);
  }

  void add_attention() {
    add_logits();
    add(op_.name + ".delta_HT", Shape{model_.heads, tokens_.all}, DType::F32, Lifetime::Scratch);
    add_window();
    switch (context_strategy(shape_)) {
      case ContextStrategy::WholeSequences:
        break;
      case ContextStrategy::Ring:
        return add_ring();
      case ContextStrategy::AllToAll:
        return add_heads();
    }
  }

  void add_logits() {
    add(op_.name + ".lse_HT", Shape{model_.heads, tokens_.all}, DType::F32, Lifetime::Forward);
    if (shape_.reports_logits) {
      add(prefix_of_module(op_) + kLargestLogits, Shape{model_.heads}, DType::F32, Lifetime::Kept);
    }
  }

  // Training goes over a ring of latents, generation over a cache of them.
  void add_latent_attention() {
    add_window();
    if (context_strategy(shape_) == ContextStrategy::Ring) {
      add_logits();
      return add_latent_ring();
    }
    add_absorbed();
    add_adapters();
  }

  void add_window() {
    if (model_.window == 0) return;
    add(kFirstKeys, Shape{tokens_.all}, DType::I32, Lifetime::Scratch);
    if (context_strategy(shape_) != ContextStrategy::AllToAll) return;
    add(kFirstKeysOfWhole, Shape{tokens_.all * shape_.cp}, DType::I32, Lifetime::Scratch);
  }

  // Adds the queries and outputs of one tile of tokens. A head has as many columns as the cache.
  void add_absorbed() {
    constexpr int64_t kTileTokens = 64;
    const int64_t t = std::min(tokens_.all, kTileTokens), latent = model_.kv_lora_rank;
    const Shape queries{t, model_.heads * (latent + model_.qk_rope_head_dim)};
    add(op_.name + ".queries_tX", queries, shape_.compute, Lifetime::Scratch);
    add(op_.name + ".latents_tX", Shape{t, model_.heads * latent}, shape_.compute,
        Lifetime::Scratch);
  }

  // Legend: L tokens of one sequence, W keys and values side by side. The buffers of all chunks of
  // a rank lie at the same place, so they are listed with the constants.
  void add_ring() {
    const int64_t W = model_.k_width() + model_.v_width();
    for (const char* name : {"ring.kv_TW[0]", "ring.kv_TW[1]"}) {
      add_buffer(name, Shape{tokens_.all, W}, shape_.compute);
    }
    for (const char* name : {"ring.dkv_TW[0]", "ring.dkv_TW[1]"}) {
      add_buffer(name, Shape{tokens_.all, W}, DType::F32);
    }
    add_ring_parts(W);
  }
  void add_buffer(const char* name, const Shape& shape, DType dtype) {
    add(name, shape, dtype, Lifetime::Constant);
  }
  // Adds the sum of all steps, and what one step makes.
  void add_ring_parts(int64_t W) {
    const int64_t L = model_.local_len(), T = tokens_.all;
    const int64_t Q = std::max(model_.q_width(), model_.o_width());
    add_buffer("ring.sum_TQ", Shape{T, Q}, DType::F32);
    add_buffer("ring.part_LQ", Shape{L, Q}, shape_.compute);
    add_buffer("ring.part_LW", Shape{L, W}, shape_.compute);
    add_buffer("ring.part_lse_HL", Shape{model_.heads, L}, DType::F32);
    add_buffer("ring.part_delta_HL", Shape{model_.heads, L}, DType::F32);
  }

  // Legend: R width of a latent, X with the part that all heads share, U = kv heads (D + V) columns
  // of what is made from a latent. B makes the gradients of the weights, and W adds them.
  void add_latent_ring() {
    const int64_t L = model_.local_len(), T = tokens_.all, R = model_.kv_lora_rank;
    const int64_t X = R + model_.qk_rope_head_dim;
    const int64_t W = model_.k_width() + model_.v_width();
    const int64_t U = W - model_.kv_heads * model_.qk_rope_head_dim;
    add(op_.name + ".latents_TX", Shape{T, X}, shape_.compute, Lifetime::Forward);
    if (has_weight_grad(graph_, op_)) {
      add(op_.name + ".dw_UR", Shape{U, R}, DType::F32, Lifetime::WeightGrad);
    }
    for (const char* name : {"ring.latents_TX[0]", "ring.latents_TX[1]"}) {
      add_buffer(name, Shape{T, X}, shape_.compute);
    }
    for (const char* name : {"ring.dlatents_TX[0]", "ring.dlatents_TX[1]"}) {
      add_buffer(name, Shape{T, X}, DType::F32);
    }
    add_buffer("ring.kv_LW", Shape{L, W}, shape_.compute);
    add_buffer("ring.up_LU", Shape{L, U}, shape_.compute);
    add_ring_parts(W);
  }

  // Attention by all-to-all: blocks that are sent and received, and its operands (q, k, v, out,
  // dout and the gradients of the first three) for this rank's heads and all tokens.
  void add_heads() {
    const int64_t T = tokens_.all, cp = shape_.cp;
    const int64_t gradients = model_.qkv_width(), operands = gradients + 2 * model_.o_width();
    const auto add_buffer = [&](const char* name, const Shape& shape) {
      add(name, shape, shape_.compute, Lifetime::Constant);
    };
    add_buffer("heads.send_TX", Shape{T, operands});
    add_buffer("heads.recv_TX", Shape{T, operands});
    add_buffer("heads.operands_NX", Shape{T * cp, operands / cp});
    add_buffer("heads.gradients_NX", Shape{T * cp, gradients / cp});
  }

  // Legend: E experts, k experts of a token, A visits of this rank's tokens, X of this rank's
  // experts (the same where one rank has all experts), n sequences, P ranks. The route is always
  // kept, so that no recomputation can send a token elsewhere.
  void add_route() {
    const int64_t T = tokens_.all, E = model_.experts, k = model_.top_k;
    const int64_t A = model_.sent_rows(T), X = model_.held_rows(T), n = tokens_.sequences;
    const std::string module = prefix_of_module(op_);
    const auto keep = [&](const char* name, const Shape& shape, DType dtype) {
      add(module + name, shape, dtype, Lifetime::Kept);
    };
    keep("route.score_TE", Shape{T, E}, DType::F32);
    keep("route.lse_T", Shape{T}, DType::F32);
    keep("route.expert_Tk", Shape{T, k}, DType::I32);
    keep("route.weight_Tk", Shape{T, k}, DType::F32);
    keep("route.row_Tk", Shape{T, k}, DType::I32);
    keep("route.token_A", Shape{A}, DType::I32);
    keep("route.weight_A", Shape{A}, DType::F32);
    keep("route.begin_E", Shape{E + 1}, DType::I32);
    keep("route.count_nE", Shape{n, E}, DType::I32);
    keep("route.load_E", Shape{E + 1}, DType::I32);
    add(module + "route.dlogits_TE", Shape{T, E}, shape_.compute, Lifetime::WeightGrad);
    add(module + "route.dweight_R", Shape{X}, DType::F32, Lifetime::Scratch);
    if (counts_earlier_visits(model_, shape_)) {
      add("visits.count_KE", Shape{n * model_.chunks.num_chunks(), E}, DType::I32,
          Lifetime::Scratch);
      add("visits.before_cE", Shape{2 * n, E}, DType::I32, Lifetime::Scratch);
    }
    if (expert_strategy(shape_) == ExpertStrategy::AllExperts) return;
    keep("route.weight_R", Shape{X}, DType::F32);
    keep("route.begin_R", Shape{E + 1}, DType::I32);
    add(module + "route.dweight_A", Shape{A}, DType::F32, Lifetime::Scratch);
    add("exchange.taken_E", Shape{E}, DType::I32, Lifetime::Scratch);
    add("exchange.counts_2P", Shape{2, model_.ep}, DType::I64, Lifetime::Scratch);
  }

  void add_exchange() {
    if (expert_strategy(shape_) == ExpertStrategy::AllExperts) return;
    add("exchange.sent_AC", Shape{model_.sent_rows(tokens_.all), model_.d_model}, shape_.compute,
        Lifetime::Scratch);
  }

  // The loss computes the gradient of its input in F, tile by tile.
  void add_loss() {
    const int64_t T = tokens_.all, C = model_.d_model, tile = std::min(T, kLossTileTokens);
    const int64_t columns = logit_columns(model_.vocab_size);
    const auto keep = [&](const char* name, const Shape& shape, DType dtype) {
      add(ahead_prefix(op_) + name, shape, dtype, Lifetime::Kept);
    };
    keep("targets_T", Shape{T}, DType::I32);
    for (const char* name : {"loss_T", "head.max_T", "head.sum_T"}) {
      keep(name, Shape{T}, DType::F32);
    }
    keep("head.dh_TC", Shape{tokens_.residual, C}, shape_.compute);
    const bool is_narrow = shape_.compute != DType::F32;
    const bool is_trained = has_weight_grad(graph_, op_);
    if (is_narrow && is_trained) {
      keep("head.dlogits_TV", Shape{T, columns}, shape_.compute);
    }
    const auto scratch = [&](const char* name, const Shape& shape, DType dtype) {
      add(name, shape, dtype, Lifetime::Scratch);
    };
    scratch("head.logits_tile_tV", Shape{tile, columns}, DType::F32);
    if (is_narrow && !is_trained) {  // no W reads the others
      scratch("head.dlogits_tile_tV", Shape{tile, columns}, shape_.compute);
    }
    scratch("head.part_3t", Shape{3 * model_.slices.count, tile}, DType::F32);
    scratch("head.parts_3Rt", Shape{3 * model_.slices.all, tile}, DType::F32);
    if (tokens_.is_split) scratch("head.dh_full_TC", Shape{T, C}, shape_.compute);
    add_slice_sums();
  }

  // Scratch of one size is one piece, whatever op needs it.
  void add_convolution() {
    const ImageWindow window = tokens_.window_of(graph_, op_);
    const int64_t bytes = convolution_scratch(window, 1, last_extent(op_.inputs.front()),
                                              last_extent(op_.outputs.front()), shape_.compute)
                              .bytes();
    if (bytes == 0) return;
    add(convolution_scratch_name(bytes), Shape{bytes}, DType::U8, Lifetime::Scratch);
  }

  // Legend: B blocks of the batch, b of this rank's part of it, C channels. W joins the moments
  // once more, in the order of micro-batches.
  void add_batch_norm() {
    const int64_t C = last_extent(op_.inputs.front());
    const BatchNormBlocks blocks = batch_norm_blocks(graph_, op_, tokens_, shape_.batch_ranks);
    const Shape moments{blocks.all, 2, C};
    add(op_.name + ".moments_B2C", moments, DType::F32, Lifetime::Kept);
    for (const char* statistic : {".mean_C", ".rstd_C"}) {
      add(op_.name + statistic, Shape{C}, DType::F32, Lifetime::Kept);
    }
    add(blocks.sums_name, moments, DType::F32, Lifetime::WeightGrad);
    add(fmt::format("{}.total_2x{}", op_.name, C), Shape{2, C}, DType::F32, Lifetime::WeightGrad);
    const auto add_part = [&](MeshAxis over, const std::string& name, int64_t num_blocks) {
      if (!gathers_sums(graph_, op_, over)) return;
      add(name, Shape{num_blocks, 2, C}, DType::F32, Lifetime::Scratch);
    };
    add_part(MeshAxis::Tp, blocks.part_name, blocks.own);
    add_part(MeshAxis::Dp, blocks.of_tp_name, blocks.of_tp);
  }

  void add_image_scratch() {
    const int64_t bytes = image_scratch_bytes(graph_, op_, tokens_, shape_.compute);
    if (bytes > 0) add(image_scratch_name(bytes), Shape{bytes}, DType::U8, Lifetime::Scratch);
  }
  int64_t last_extent(ValueId id) const { return graph_.values[size_t(id)].dims.back().extent; }

  const Graph& graph_;
  const Op& op_;
  const ModelShard& model_;
  const StageShape& shape_;
  TokenCounts tokens_;
  std::vector<OpTensor> tensors_;
};

}  // namespace

std::vector<DocumentTensor> document_tensors(const TokenCounts& tokens, const StageShape& shape) {
  if (!shape.documents) return {};
  std::vector<DocumentTensor> tensors = {{kDocumentFirst, Shape{tokens.all}},
                                         {kDocumentPosition, Shape{tokens.all}}};
  if (context_strategy(shape) == ContextStrategy::AllToAll) {
    tensors.push_back({kDocumentFirstOfWhole, Shape{tokens.all * shape.cp}});
  }
  return tensors;
}

std::vector<OpTensor> op_tensors(const Graph& graph, const Op& op, const ModelShard& shard,
                                 const StageShape& shape) {
  return TensorLister(graph, op, shard, shape).run();
}

std::string ahead_prefix(const Op& op) {
  return op.ahead > 0 ? op.name.substr(0, op.name.rfind('.') + 1) : "";
}

std::string prefix_of_module(const Op& op) {
  const int64_t depth = module_of(op.name);
  return depth > 0 ? module_prefix(depth) : "";
}

std::string convolution_scratch_name(int64_t bytes) {
  return fmt::format("convolution.scratch_{}", bytes);
}

std::string slice_sum_name(int level) { return fmt::format("slices.sum_TC[{}]", level); }

}  // namespace trireme
