#pragma once

#include <string>
#include <vector>

#include "compile/run_plan.h"
#include "graph/graph.h"
#include "schema/hardware.h"

namespace trireme {

// What an op waits for: its FLOPs, its reads and writes, or the launch of its kernels.
enum class RoofBound : uint8_t { Peak, Bandwidth, Launch };
std::string_view name_of(RoofBound bound);

// The forward pass (F), the input gradient (B) or the weight gradient (W) of one op, for one
// micro-batch on one rank.
struct RoofPoint {
  std::string unit;  // "layer" or "head"
  std::string op;    // such as "attn.wo"
  OpKind kind = OpKind::Norm;
  char pass = 'F';
  double flops = 0.0;
  double bytes = 0.0;
  double seconds = 0.0;  // priced
  RoofBound bound = RoofBound::Peak;

  double flops_per_byte() const { return flops / bytes; }
  double flops_per_s() const { return flops / seconds; }
};

// Every op of a layer and of the head under the roof min(peak, FLOPs per byte x bandwidth) of a
// device.
struct Roofline {
  std::string device;
  double peak_flops = 0.0;
  double bytes_per_s = 0.0;
  std::vector<RoofPoint> points;  // in the order of the forward pass

  // FLOPs per byte from which the peak and no longer the bandwidth is the roof.
  double ridge() const { return peak_flops / bytes_per_s; }
  double roof_at(double flops_per_byte) const;  // FLOP/s
};

// Works and prices of the ops are those of the plan (graph/op_work.h, compile/unit_price.h). Ops
// without products count one FLOP for each number that they read or write. Transfers between ranks
// are not points.
Roofline roofline(const ModelSpec& model, const StageShape& shape, const Hardware& hardware);

}  // namespace trireme
