#include "models/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "graph/model_graphs.h"
#include "models/decoder_graph.h"
#include "nn/adapter.h"
#include "nn/cached_attention.h"
#include "nn/latent_attention.h"
#include "nn/rope_table.h"

namespace trireme {
namespace {

constexpr const char* kHidden = "hidden_TC";  // the residual stream, of one layer after the other
constexpr const char* kHeadInput = "head_input_TC";

std::string cache_name(const StageUnit& unit) { return unit.name + ".cache"; }

// Returns how many numbers the cache of a layer has for one token.
int64_t cache_width(const ModelSpec& model) {
  return model.has_latents() ? model.kv_lora_rank + model.qk_rope_head_dim
                             : model.k_width() + model.v_width();
}

// Layers come one after the other, so their tensors share memory: no name has a layer in it.
StageUnits decoder_units(const ModelSpec& model, const ModelShard& shard, const StageShape& shape) {
  StageUnits result;
  const auto forward_graph = [&](Graph unit) { return decoder_graph(std::move(unit), shape); };
  for_each_unit(model, whole_model(model), forward_graph, [&](const Graph& graph, bool is_new) {
    if (is_new) {
      const Keep kept = keep(graph, {});
      result.kinds.push_back({graph, kept, unit_memory(graph, shard, shape, kept, true)});
    }
    StageUnit unit{.kind = int(result.kinds.size()) - 1, .name = graph.unit};
    const bool is_first = result.units.empty(), is_head = graph.unit == "head";
    if (!is_first && !is_head) unit.param_prefix = graph.unit + ".";
    unit.input = {Space::Scratch, is_first ? "tokens_T" : kHidden};
    unit.output = {Space::Scratch, is_head ? kHeadInput : kHidden};
    result.units.push_back(std::move(unit));
  });
  return result;
}

}  // namespace

Decoder::Decoder(const ModelSpec& model, const Frame& params, DType compute, int64_t num_sequences)
    : model_(shard_model(generating_model(model), {})),
      shape_{.compute = compute},
      lengths_(size_t(num_sequences)) {
  TRIREME_CHECK(num_sequences >= 1 && num_sequences <= capacity(),
                "num_sequences must be 1 .. model.seq_len");
  cached_rows_.reserve(lengths_.size());
  const StageUnits units = decoder_units(generating_model(model), model_, shape_);
  add_tables(units);
  memory_ = Buffer::allocate(tables_.scratch.bytes());
  const Frame frame(tables_.scratch, memory_.data());
  if (const TensorRef cos_SD = frame.find("rope.cos_SD")) {
    fill_rope_table(model_, cos_SD, frame.at("rope.sin_SD"));
  }
  if (const TensorRef scale_r = frame.find(kAdapterScale)) fill_adapter_scale(model_, scale_r);
  bind_units(units, params);
  const bool has_head_ops = !units.kinds.back().graph.ops.empty();
  const std::string head = head_param(model_);
  head_.params.quantized = quantized_weight(params, head, model_.vocab_size);
  if (!head_.params.quantized) head_.params.w_FC = matrix(params.at(head));
  tokens_T_ = frame.at("tokens_T");
  position_T_ = frame.at("position_T");
  hidden_TC_ = matrix(frame.at(has_head_ops ? kHeadInput : kHidden));
  last_BC_ = matrix(frame.at("last_BC"));
  logits_BV_ = matrix(frame.at("logits_BV"));
}

void Decoder::add_tables(const StageUnits& units) {
  TensorTable& table = tables_.scratch;
  const auto add = [&](const std::string& name, const Shape& shape, DType dtype) {
    if (!table.contains(name)) table.add(name, shape, dtype);
  };
  const int64_t T = capacity(), C = model_.d_model, B = num_sequences();
  add("tokens_T", Shape{T}, DType::I32);
  add("position_T", Shape{T}, DType::I32);
  add(kHidden, Shape{T, C}, shape_.compute);
  add(kHeadInput, Shape{T, C}, shape_.compute);
  add("last_BC", Shape{B, C}, shape_.compute);
  add("logits_BV", Shape{B, model_.vocab_size}, DType::F32);
  for (const StageUnit& unit : units.units) {
    for (const UnitTensor& tensor : units.kind_of(unit).memory.tensors) {
      if (!tensor.is_gradient) add(tensor.name, tensor.shape, tensor.dtype);
    }
    if (!unit.param_prefix.empty()) {
      add(cache_name(unit), Shape{B * T, cache_width(model_)}, shape_.compute);
    }
  }
  tables_.saved = tables_.scratch;
}

void Decoder::bind_units(const StageUnits& units, const Frame& params) {
  StageBinding binding{model_, shape_, tables_, static_cast<char*>(memory_.data())};
  binding.trains = false;
  const Frame frame(tables_.scratch, memory_.data());
  for (const StageUnit& unit : units.units) {
    const UnitKind& kind = units.kind_of(unit);
    for (size_t op = 0; op < kind.graph.ops.size(); ++op) {
      const OpBinding b(binding, kind, unit, op, params, params);
      const OpKind op_kind = kind.graph.ops[op].kind;
      if (op_kind == OpKind::Attention) {
        ops_.push_back(std::make_unique<CachedAttention>(b, matrix(frame.at(cache_name(unit)))));
      } else if (op_kind == OpKind::LatentAttention) {
        ops_.push_back(
            std::make_unique<CachedLatentAttention>(b, matrix(frame.at(cache_name(unit)))));
      } else {
        ops_.push_back(bind_op(b));
      }
    }
  }
}

int64_t Decoder::cache_bytes() const {
  return model_.num_blocks() * capacity() * cache_width(model_) * size_of(shape_.compute);
}

void Decoder::take(std::span<const NextTokens> next) {
  cached_rows_.clear();
  int64_t row = 0, previous = -1;
  for (const NextTokens& appended : next) {
    TRIREME_CHECK(appended.sequence > previous && appended.sequence < num_sequences(),
                  "the numbers of the sequences of a call ascend");
    previous = appended.sequence;
    const auto count = int64_t(appended.tokens.size());
    const int64_t length = lengths_[size_t(appended.sequence)];
    TRIREME_CHECK(count >= 1 && length + count <= capacity() && row + count <= capacity(),
                  "the context does not take so many tokens");
    cached_rows_.push_back({appended.sequence, row, count, length});
    std::copy(appended.tokens.begin(), appended.tokens.end(), tokens_T_.as<int32_t>() + row);
    std::iota(position_T_.as<int32_t>() + row, position_T_.as<int32_t>() + row + count,
              int32_t(length));
    row += count;
  }
}

void Decoder::append(Ctx& ctx, std::span<const NextTokens> next) {
  TRIREME_CHECK(!next.empty(), "a call continues a sequence");
  take(next);
  SlotMemory m;
  m.tokens = cached_rows_.back().end_row();
  m.bases[size_t(Base::Saved)] = m.bases[size_t(Base::Scratch)] =
      static_cast<char*>(memory_.data());
  MicrobatchInfo info{.num_sequences = 1, .training = false, .cached_rows = cached_rows_};
  info.documents.position_T = {position_T_.data, DType::I32, Shape{m.tokens}};
  for (const std::unique_ptr<OpBody>& op : ops_) op->forward(ctx, info, m);
  for (size_t k = 0; k < next.size(); ++k) {
    const CachedRows& rows = cached_rows_[k];
    lengths_[size_t(rows.sequence)] += rows.num_rows;
    ctx.kernels.copy_matrix(
        ctx.stream, {rows_of(hidden_TC_, rows.end_row() - 1, 1), rows_of(last_BC_, int64_t(k), 1)});
  }
  const auto count = int64_t(next.size());
  head_.forward(ctx, rows_of(last_BC_, 0, count), rows_of(logits_BV_, 0, count));
}

std::span<const float> Decoder::logits(int64_t k) const {
  return {logits_BV_.row<float>(k), size_t(model_.vocab_size)};
}

std::span<const float> Decoder::append(Ctx& ctx, std::span<const int32_t> tokens) {
  const NextTokens next{.tokens = tokens};
  append(ctx, {&next, 1});
  return logits(0);
}

}  // namespace trireme
