#include "graph/op_work.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "graph/axis_part.h"
#include "graph/backward_reads.h"
#include "graph/op_placement.h"
#include "graph/op_tensors.h"

namespace trireme {
namespace {

constexpr double kFloatBytes = 4.0;

// Legend: T tokens of the rank, R those of its residual stream, C d_model.
class WorkLister {
 public:
  WorkLister(const Graph& graph, const Op& op, const ModelShard& shard, const StageShape& shape)
      : graph_(graph),
        op_(op),
        shard_(shard),
        shape_(shape),
        tokens_(shard, shape),
        element_bytes_(double(size_of(shape.compute))) {
    work_.kind = op.kind;
  }

  OpWork run() {
    switch (op_.kind) {
      case OpKind::Lookup:
        forward({}, out() + out(), 1);
        if (is_trained()) {
          weight_grad({}, out() + 2.0 * kFloatBytes / element_bytes_ * out(), 1);
        }
        break;
      case OpKind::Norm:
        forward({}, in() + out(), 1, VectorOperations::kNormForward * numbers_out());
        input_grad({}, out() + 2.0 * in(), 1, VectorOperations::kNormInputGrad * numbers_out());
        if (op_.params.empty() || is_trained()) {
          weight_grad({}, out() + in(), 1, VectorOperations::kNormWeightGrad * numbers_out());
        }
        break;
      case OpKind::Linear:
        add_product(product_rows(), outputs_cols(), cols_of(op_.inputs.front()));
        if (has_trained_bias()) {
          weight_grad({}, double(product_rows() * outputs_cols()) * element_bytes_, 1);
        }
        for (const Adapter& adapter : op_.adapters) add_adapter(adapter);
        add_residual();
        break;
      case OpKind::GroupedLinear:
        add_grouped_product();
        break;
      case OpKind::Route:
        add_product(tokens_.all, shard_.experts, shard_.d_model);
        break;
      case OpKind::ChooseKeys:
        add_choice_of_keys();
        break;
      case OpKind::Attention:
        work_.attention = attention();
        if (shard_.has_indexer()) {
          forward({}, chosen_bytes(), 0);
          input_grad({}, chosen_bytes(), 0);
        }
        break;
      case OpKind::Scale:
        forward({}, in() + out(), 1);
        input_grad({}, in() + out(), 1);
        if (is_trained()) weight_grad({}, in() + out(), 1);
        break;
      case OpKind::Rope:
        add_on_each(VectorOperations::kRope);
        break;
      case OpKind::Dropout:
        add_on_each(VectorOperations::kDropout);
        break;
      case OpKind::Concat:
      case OpKind::Dispatch:
      case OpKind::Combine:
        add_on_each(0.0);
        break;
      case OpKind::Activation:
        forward(
            {}, in() + out(), 1,
            (is_relu() ? VectorOperations::kReluForward : VectorOperations::kActivationForward) *
                numbers_out());
        input_grad({}, 2.0 * in() + out(), 1,
                   (is_relu() ? VectorOperations::kReluGrad : VectorOperations::kActivationGrad) *
                       numbers_out());
        break;
      case OpKind::Add:  // a value that is read twice has two gradients, which are summed
        forward({}, in() + out(), 1);
        input_grad({}, 3.0 * out(), 1);
        break;
      case OpKind::SoftmaxParts:
        add_product(tokens_.all, shard_.vocab_size, shard_.d_model);
        add_softmax();
        break;
      case OpKind::CrossEntropy:
        if (!op_.params.empty()) add_fused_loss();
        break;
      case OpKind::Pixels:
        forward({}, out(), 1);
        break;
      case OpKind::Convolution:
        add_convolution();
        break;
      case OpKind::BatchNorm:  // reads x twice in each pass
        forward({}, 2.0 * in() + out(), 3, VectorOperations::kNormForward * numbers_out());
        input_grad({}, 2.0 * (out() + in()) + in(), 3,
                   VectorOperations::kNormInputGrad * numbers_out());
        break;
      case OpKind::Pool:
        forward({}, in() + out(), 1, double(window_pixels()) * numbers_out());
        input_grad({}, 2.0 * in() + out(), 1, double(window_pixels()) * numbers_out());
        break;
      case OpKind::Flatten:
        add_on_each(0.0);
        break;
      case OpKind::LatentAttention:
        add_latent_ring();
        break;
      case OpKind::Count:
      case OpKind::Choose:
        break;
      case OpKind::Redistribute:  // each rank copies its own rows into the halo
        if (op_.change.to.kind == Placement::Kind::Halo) add_on_each(0.0);
        break;
    }
    return std::move(work_);
  }

 private:
  const Value& value(ValueId id) const { return graph_.values[size_t(id)]; }

  // Rows of experts that this rank takes when every expert is visited equally often.
  int64_t visits() const {
    return shard_.expert_rows(shape_.micro_sequences * shard_.seq_len) / shape_.cp;
  }
  int64_t rows_of(ValueId id) const {
    const Value& v = value(id);
    if (v.dims.front() == Axis::Visit) return visits();
    return tokens_.rows_of(v);
  }
  int64_t cols_of(ValueId id) const {
    const Value& v = value(id);
    if (v.dims.size() <= v.num_row_dims) return 1;
    return part_of(v.column_dims(), shard_).count;
  }
  // Returns all tokens, or those of the rank's residual stream if the product stays on it.
  int64_t product_rows() const { return op_.enter ? tokens_.all : rows_of(op_.inputs.front()); }
  int64_t outputs_cols() const {
    int64_t cols = 0;
    for (const ValueId id : op_.outputs) cols += cols_of(id);
    return cols;
  }
  // Bytes of all inputs and of all outputs in the dtype of the run.
  double bytes_of(const std::vector<ValueId>& ids) const {
    double bytes = 0.0;
    for (const ValueId id : ids) {
      const Numbers numbers = value(id).numbers;
      if (numbers == Numbers::Compute) bytes += double(rows_of(id) * cols_of(id)) * element_bytes_;
    }
    return bytes;
  }
  bool is_relu() const { return shard_.mlp == MlpType::Relu || shard_.mlp == MlpType::Relu2; }
  double in() const { return bytes_of(op_.inputs); }
  double out() const { return bytes_of(op_.outputs); }
  double numbers_out() const { return out() / element_bytes_; }

  static void add(HalfWork& half, std::vector<Product> products, double bytes, int calls,
                  double operations) {
    for (const Product& product : products) half.products.push_back(product);
    half.bytes += bytes;
    half.calls += calls;
    half.operations += operations;
  }
  void forward(std::vector<Product> products, double bytes, int calls, double operations = 0.0) {
    add(work_.forward, std::move(products), bytes, calls, operations);
  }
  void input_grad(std::vector<Product> products, double bytes, int calls, double operations = 0.0) {
    add(work_.input_grad, std::move(products), bytes, calls, operations);
  }
  void weight_grad(std::vector<Product> products, double bytes, int calls,
                   double operations = 0.0) {
    add(work_.weight_grad, std::move(products), bytes, calls, operations);
  }

  // An op that makes one number of each, in both directions.
  void add_on_each(double operations) {
    forward({}, in() + out(), 1, operations * numbers_out());
    input_grad({}, in() + out(), 1, operations * numbers_out());
    add_residual();
  }

  void add_product(int64_t rows, int64_t out, int64_t in, int64_t count = 1) {
    forward({{rows, out, in, count}}, 0.0, 0);
    input_grad({{rows, in, out, count}}, 0.0, 0);
    for (const int64_t cols : trained_cols(out)) {
      weight_grad({{cols, in, rows, count, size_of(shape_.grad)}}, 0.0, 0);
    }
  }
  // Columns of the output whose weights are trained, in parts that lie together; `out`: of all.
  std::vector<int64_t> trained_cols(int64_t out) const {
    std::vector<int64_t> parts;
    int64_t cols = 0;
    bool trains_all = true;
    const auto end_part = [&] {
      if (cols > 0) parts.push_back(std::exchange(cols, 0));
    };
    for (const ParamId id : op_.params) {
      const Param& param = graph_.params[size_t(id)];
      if (!param.is_matrix() || param.is_adapter) continue;
      trains_all = trains_all && param.is_trained;
      if (!param.is_trained || !param.adjoins_previous) end_part();
      if (param.is_trained) cols += part_of(param.rows, shard_).count;
    }
    end_part();
    return trains_all ? std::vector<int64_t>{out} : parts;
  }
  int64_t window_pixels() const { return op_.window.size * op_.window.size; }
  // Nothing lies before the pixels, so no gradient goes there.
  void add_convolution() {
    const int64_t Q = rows_of(op_.outputs.front()), F = outputs_cols();
    const int64_t K = window_pixels() * cols_of(op_.inputs.front());
    forward({{Q, F, K}}, 0.0, 0);
    if (!is_of_samples(graph_, op_.inputs.front())) input_grad({{Q, K, F}}, 0.0, 0);
    if (reads_input()) weight_grad({{F, K, Q, 1, size_of(shape_.grad)}}, 0.0, 0);
  }
  // y += scale (x a^T) b^T; W computes both inner results again.
  void add_adapter(const Adapter& adapter) {
    const int64_t T = tokens_.all, r = shard_.lora_rank;
    const int64_t in = cols_of(op_.inputs.front()), out = cols_of(op_.outputs[adapter.output]);
    const double inner = 2.0 * double(T * r) * element_bytes_;  // is scaled in place
    forward({{T, r, in}, {T, out, r}}, inner + double(T * out) * element_bytes_, 1);
    input_grad({{T, r, out}, {T, in, r}}, inner + double(T * in) * element_bytes_, 1);
    if (graph_.params[size_t(adapter.a)].is_trained) {
      weight_grad({{T, r, out, 1, 0, true}, {r, in, T, 1, size_of(shape_.grad)}}, inner, 1);
    }
    if (graph_.params[size_t(adapter.b)].is_trained) {
      weight_grad({{T, r, in, 1, 0, true}, {out, r, T, 1, size_of(shape_.grad)}}, inner, 1);
    }
  }
  void add_grouped_product() {
    const int64_t experts = std::max<int64_t>(1, shard_.experts / shape_.ep);
    const int64_t rows = std::max<int64_t>(1, visits() / experts);
    const int64_t out = outputs_cols(), in = cols_of(op_.inputs.front());
    forward({{rows, out, in, experts}}, 0.0, 0);
    input_grad({{rows, in, out, experts}}, 0.0, 0);
    std::map<int64_t, int64_t> trained;  // [columns] number of experts
    for (const int64_t cols : trained_cols(-1)) {
      if (cols > 0) ++trained[cols];
    }
    if (trained.empty() && weight_grad_reads_input(graph_, op_)) trained[out] = shard_.experts;
    for (const auto& [cols, count] : trained) {
      const int64_t held = std::max<int64_t>(1, count / shape_.ep);
      weight_grad({{cols, in, rows, held, size_of(shape_.grad)}}, 0.0, 0);
    }
  }

  // A parameter of the op is trained; those of its adapters do not count.
  bool is_trained() const {
    return trains([](const Param&) { return true; });
  }
  bool reads_input() const {
    return trains([](const Param& param) { return param.is_matrix(); });
  }
  bool has_trained_bias() const {
    return trains([](const Param& param) { return !param.is_matrix(); });
  }
  template <typename Counts>
  bool trains(Counts&& counts) const {
    return std::any_of(op_.params.begin(), op_.params.end(), [&](ParamId id) {
      const Param& param = graph_.params[size_t(id)];
      return param.is_trained && !param.is_adapter && counts(param);
    });
  }

  // What a fused op does to the residual stream. Without dropout the product adds to it, which
  // only reads it.
  void add_residual() {
    const double stream = double(tokens_.residual * shard_.d_model) * element_bytes_;
    if (!op_.dropout.empty()) {
      forward({}, 3.0 * stream, 1);
      input_grad({}, 2.0 * stream, 1);
    } else if (op_.early_residual >= 0 || op_.late_residual >= 0) {
      forward({}, stream, 0);
    }
  }

  // Every rank makes keys and values of all latents, which is the work of cp ranks. F, and B again,
  // multiply the latents; B multiplies the gradients of keys and values by the weights and by the
  // latents. Beside the products, keys and values are put in their places.
  void add_latent_ring() {
    const int64_t T = tokens_.all, R = shard_.kv_lora_rank;
    const int64_t W = shard_.k_width() + shard_.v_width();
    const int64_t U = W - shard_.kv_heads * shard_.qk_rope_head_dim;
    const int64_t others = shape_.cp - 1;
    const double copies = double(shape_.cp * T * (U + W)) * element_bytes_;
    work_.attention = attention();
    forward({{T, U, R}, {T, U, R, others, 0, true}}, copies, shape_.cp);
    input_grad({{T, U, R, shape_.cp, 0, true}, {T, R, U}, {T, R, U, others, 0, true}}, 2.0 * copies,
               2 * shape_.cp);
    for (const int64_t cols : trained_cols(U)) {
      input_grad({{cols, R, T, 1, sizeof(float)}, {cols, R, T, others, sizeof(float), true}}, 0.0,
                 0);
      weight_grad({}, double(cols * R) * (kFloatBytes + double(size_of(shape_.grad))), 1);
    }
  }

  AttentionWork attention() const {
    // All-to-all gives a rank every token of some heads instead; the work is the same.
    const bool is_ring = context_strategy(shape_) == ContextStrategy::Ring;
    return {
        shape_.micro_sequences, shard_.heads,           shard_.kv_heads,   shard_.local_len(),
        shard_.seq_len,         shard_.key_dim(),       shard_.v_head_dim, shard_.most_seen_keys(),
        shape_.document_keys,   is_ring ? shape_.cp : 1};
  }

  // The indices of all keys that are chosen.
  double chosen_bytes() const {
    const auto chosen = double(std::min(shard_.index_top_k, shard_.seq_len));
    return double(tokens_.all) * chosen * double(size_of(DType::I32));
  }

  // F scores all keys before a query in every head, sums the heads in fp32, and chooses. B makes
  // the scores of the chosen keys again, and the gradients of queries and keys.
  void add_choice_of_keys() {
    AttentionWork scored = attention();
    const double chosen_keys = scored.seen_keys();
    scored.window = 0;
    const double all_keys = scored.seen_keys();
    const int64_t rows = scored.queries * shard_.index_heads, width = shard_.index_head_dim;
    const auto n = [](double keys) { return std::max<int64_t>(1, std::llround(keys)); };
    const auto queries = double(tokens_.all);
    const auto operations = [&](double keys) {
      return queries * keys * double(shard_.index_heads) * VectorOperations::kIndexScore;
    };
    forward({{rows, n(all_keys), width, scored.sequences}},
            in() + 2.0 * kFloatBytes * queries * all_keys + chosen_bytes(), 2,
            operations(all_keys));
    const Product again{rows, n(chosen_keys), width, scored.sequences, 0, true};
    const Product of_queries{rows, width, n(chosen_keys), scored.sequences};
    input_grad({again, of_queries, of_queries},
               2.0 * in() + 2.0 * kFloatBytes * queries * chosen_keys + chosen_bytes(), 2,
               operations(chosen_keys));
  }

  // The softmax as other trainers compute it, one kernel after the other on fp32 logits of all
  // tokens: a cast, the maximum, a subtraction, the exponential, the sum; then the gradient.
  void add_softmax() {
    const double logits = double(tokens_.all) * double(shard_.vocab_size);
    const double forward_bytes = (element_bytes_ + 4.0) + 4.0 + 8.0 + 8.0 + 4.0;
    forward({}, logits * forward_bytes, 5);
    input_grad({}, logits * (4.0 + 4.0 + 4.0 + element_bytes_), 2);
  }

  // The loss computes the gradient of its input in F, tile by tile, and stores that of the logits
  // for W. The logits of a tile are more than the caches of a processor hold.
  void add_fused_loss() {
    const int64_t rows = tokens_.all, vocab = shard_.vocab_size, width = shard_.d_model;
    const auto add_tiles = [&](int64_t tile, int64_t count) {
      if (tile * count == 0) return;
      constexpr int64_t kLogitBytes = sizeof(float);
      forward({{tile, vocab, width, count, kLogitBytes}, {tile, width, vocab, count}}, 0.0, 0);
    };
    add_tiles(kLossTileTokens, rows / kLossTileTokens);
    add_tiles(rows % kLossTileTokens, 1);
    const double logits = double(rows) * double(vocab);
    forward({}, logits * (2.0 * kFloatBytes + element_bytes_), 1, VectorOperations::kLoss * logits);
    work_.forward.is_streamed = true;
    if (reads_input()) weight_grad({{vocab, width, rows, 1, size_of(shape_.grad)}}, 0.0, 0);
    if (has_trained_bias()) weight_grad({}, logits * element_bytes_, 1);
  }

  const Graph& graph_;
  const Op& op_;
  const ModelShard& shard_;
  const StageShape& shape_;
  TokenCounts tokens_;
  double element_bytes_;
  OpWork work_;
};

}  // namespace

std::vector<OpWork> op_works(const Graph& unit, const ModelShard& shard, const StageShape& shape) {
  std::vector<OpWork> works;
  for (const Op& op : unit.ops) works.push_back(WorkLister(unit, op, shard, shape).run());
  return works;
}

}  // namespace trireme
