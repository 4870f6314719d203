#include "planner/roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "compile/kernel_price.h"
#include "graph/all_passes.h"
#include "graph/model_graphs.h"
#include "graph/op_work.h"

namespace trireme {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// One pass of an op.
struct PassWork {
  const HalfWork& half;
  const AttentionWork* attention = nullptr;  // if this pass computes it
  double attention_factor = 1.0;             // its FLOPs / those of the forward pass
};

// The same device with only one of its three limits.
Hardware limited_by(RoofBound bound, Hardware hardware) {
  if (bound != RoofBound::Peak) {
    hardware.fp32_flops = hardware.bf16_flops = hardware.fp16_flops = kNoLimit;
    hardware.sustained_flops = 0.0;
  }
  if (bound != RoofBound::Bandwidth) hardware.memory_bytes_per_s = kNoLimit;
  if (bound != RoofBound::Launch) hardware.launch_s = 0.0;
  return hardware;
}

class RoofPricer {
 public:
  RoofPricer(const ModelSpec& model, const StageShape& shape, const Hardware& hardware)
      : shard_(shard_model(model, shape)), shape_(shape), hardware_(hardware) {
    for (const RoofBound bound : {RoofBound::Peak, RoofBound::Bandwidth, RoofBound::Launch}) {
      limited_.push_back(limited_by(bound, hardware));
    }
  }

  void add(const std::string& unit, const Graph& stated, std::vector<RoofPoint>& points) const {
    const Graph graph = fused_graph(stated, shape_);
    const std::vector<OpWork> works = op_works(graph, shard_, shape_);
    for (size_t i = 0; i < works.size(); ++i) {
      const OpWork& work = works[i];
      const AttentionWork* attention = work.attention ? &*work.attention : nullptr;
      const HalfWork weight_grad = weight_grad_on(work.weight_grad, hardware_);
      const std::pair<char, PassWork> passes[] = {
          {'F', {work.forward, attention, 1.0}},
          {'B', {work.input_grad, attention, kBackwardAttention}},
          {'W', {weight_grad, nullptr, 1.0}}};
      for (const auto& [pass, of_pass] : passes) {
        RoofPoint point{unit, graph.ops[i].name, work.kind, pass, flops(of_pass), bytes(of_pass)};
        if (point.bytes <= 0.0) continue;
        point.seconds = seconds(of_pass, hardware_);
        point.bound = bound_of(of_pass);
        points.push_back(std::move(point));
      }
    }
  }

 private:
  double element_bytes() const { return double(size_of(shape_.compute)); }

  double flops(const PassWork& work) const {
    double flops = work.half.bytes / element_bytes();
    for (const Product& product : work.half.products) flops += product.flops();
    if (work.attention) flops += work.attention_factor * work.attention->forward_flops();
    return flops;
  }
  double bytes(const PassWork& work) const {
    double bytes = work.half.bytes;
    for (const Product& product : work.half.products) {
      bytes += product_bytes(product, shape_.compute);
    }
    if (work.attention) {
      const double passes = work.attention_factor > 1.0 ? 2.0 : 1.0;
      bytes += passes * fused_attention_bytes(*work.attention, shape_.compute);
    }
    return bytes;
  }
  double seconds(const PassWork& work, const Hardware& hardware) const {
    double seconds = price_vectors(work.half, hardware);
    for (const Product& product : work.half.products) {
      seconds += price_product(product, shape_.compute, hardware);
    }
    if (work.attention) {
      // The price leaves out reads and writes, which bound attention over few tokens.
      const double passes = work.attention_factor > 1.0 ? 2.0 : 1.0;
      const double bytes = passes * fused_attention_bytes(*work.attention, shape_.compute);
      seconds += std::max(
          price_fused_attention(*work.attention, work.attention_factor, shape_.compute, hardware),
          price_memory(bytes, 1, hardware));
    }
    return seconds;
  }
  // The limit that alone would take the longest.
  RoofBound bound_of(const PassWork& work) const {
    size_t longest = 0;
    for (size_t i = 1; i < limited_.size(); ++i) {
      if (seconds(work, limited_[i]) > seconds(work, limited_[longest])) longest = i;
    }
    return RoofBound(longest);
  }

  ModelShard shard_;
  const StageShape& shape_;
  const Hardware& hardware_;
  std::vector<Hardware> limited_;  // [RoofBound]
};

}  // namespace

std::string_view name_of(RoofBound bound) {
  switch (bound) {
    case RoofBound::Peak:
      return "peak";
    case RoofBound::Bandwidth:
      return "bandwidth";
    case RoofBound::Launch:
      return "launch";
  }
  return "";
}

double Roofline::roof_at(double flops_per_byte) const {
  return std::min(peak_flops, flops_per_byte * bytes_per_s);
}

Roofline roofline(const ModelSpec& model, const StageShape& shape, const Hardware& hardware) {
  Roofline roof{hardware.name, hardware.peak_flops(shape.compute), hardware.memory_bytes_per_s, {}};
  const RoofPricer pricer(model, shape, hardware);
  const std::vector<LayerRun> kinds = layer_kinds(model);
  for (const LayerRun& kind : kinds) {
    const std::string name = kinds.size() == 1 ? "layer" : fmt::format("layers.{}", kind.first);
    pricer.add(name, layer_graph(model, kind.first), roof.points);
  }
  pricer.add("head", head_graph(model), roof.points);
  return roof;
}

}  // namespace trireme
