#include "models/decoder.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "graph/model_graphs.h"
#include "models/decoder_graph.h"
#include "nn/adapter.h"
#include "nn/cached_attention.h"
#include "nn/latent_attention.h"
#include "nn/rope_table.h"

namespace trireme {
namespace {

constexpr const char* kHidden = "hidden_SC";  // the residual stream, of one layer after the other
constexpr const char* kHeadInput = "head_input_SC";

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
    unit.input = {Space::Scratch, is_first ? "tokens_S" : kHidden};
    unit.output = {Space::Scratch, is_head ? kHeadInput : kHidden};
    result.units.push_back(std::move(unit));
  });
  return result;
}

}  // namespace

Decoder::Decoder(const ModelSpec& model, const Frame& params, DType compute)
    : model_(shard_model(generating_model(model), {})), shape_{.compute = compute} {
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
  tokens_S_ = frame.at("tokens_S");
  hidden_SC_ = matrix(frame.at(has_head_ops ? kHeadInput : kHidden));
  logits_1V_ = matrix(frame.at("logits_1V"));
}

void Decoder::add_tables(const StageUnits& units) {
  TensorTable& table = tables_.scratch;
  const auto add = [&](const std::string& name, const Shape& shape, DType dtype) {
    if (!table.contains(name)) table.add(name, shape, dtype);
  };
  const int64_t S = model_.seq_len, C = model_.d_model;
  add("tokens_S", Shape{S}, DType::I32);
  add(kHidden, Shape{S, C}, shape_.compute);
  add(kHeadInput, Shape{S, C}, shape_.compute);
  add("logits_1V", Shape{1, model_.vocab_size}, DType::F32);
  for (const StageUnit& unit : units.units) {
    for (const UnitTensor& tensor : units.kind_of(unit).memory.tensors) {
      if (!tensor.is_gradient) add(tensor.name, tensor.shape, tensor.dtype);
    }
    if (!unit.param_prefix.empty()) {
      add(cache_name(unit), Shape{S, cache_width(model_)}, shape_.compute);
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

std::span<const float> Decoder::append(Ctx& ctx, std::span<const int32_t> tokens) {
  const int64_t n = static_cast<int64_t>(tokens.size());
  TRIREME_CHECK(n >= 1 && length_ + n <= capacity(), "the context does not take so many tokens");
  std::copy(tokens.begin(), tokens.end(), tokens_S_.as<int32_t>());
  const MicrobatchInfo info{.num_sequences = 1, .training = false, .first_position = length_};
  SlotMemory m;
  m.tokens = n;
  m.bases[size_t(Base::Saved)] = m.bases[size_t(Base::Scratch)] =
      static_cast<char*>(memory_.data());
  for (const std::unique_ptr<OpBody>& op : ops_) op->forward(ctx, info, m);
  length_ += n;
  head_.forward(ctx, rows_of(hidden_SC_, n - 1, 1), logits_1V_);
  return {logits_1V_.row<float>(0), size_t(model_.vocab_size)};
}

}  // namespace trireme
