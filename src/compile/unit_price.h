#pragma once

#include <map>
#include <vector>

#include "compile/run_plan.h"
#include "graph/op_half.h"
#include "graph/op_work.h"
#include "schema/hardware.h"
#include "sim/simulate.h"

namespace trireme {

// Seconds of the three halves of a training step for one micro-batch, and of their parts.
struct ComputeTimes {
  double f_s = 0.0;
  double b_s = 0.0;  // includes what is computed again
  double w_s = 0.0;

  double products_s = 0.0;
  double attention_s = 0.0;
  double memory_s = 0.0;  // kernels whose time is that of their reads and writes
  double again_s = 0.0;   // recomputation

  double total_s() const { return f_s + b_s + w_s; }
  ComputeTimes& operator+=(const ComputeTimes& other);
  friend ComputeTimes operator*(double factor, const ComputeTimes& times);
};

// Seconds of the half that an action of this kind computes: F, B, W or BW; 0 for other kinds.
double seconds_of(const ComputeTimes& times, ActionKind kind);

// Prices of the units of a model on one rank, for one micro-batch.
struct UnitPrices {
  ComputeTimes embedding, head;
  std::vector<ComputeTimes> layers;  // [kind of layer]
  std::vector<LayerRun> kinds;       // layer_kinds of the model

  ComputeTimes of(const StageSpec& stage) const;
  // Counts only the units that the action names.
  ComputeTimes of(const StageSpec& stage, const Action& action) const;
};

// Those at every place of a plan's pipeline: they depend on its tp degree.
struct PlanPrices {
  std::map<int, UnitPrices> of_tp;

  const UnitPrices& at(const Mesh& mesh, int place) const { return of_tp.at(mesh.tp_at(place)); }
};

// On a mixed cluster, the price of a part is that of the device which is fastest at it, or slowest.
// Both are the same if all ranks have the same device.
enum class OfDevices : uint8_t { Fastest, Slowest };

// Prices every op of the graphs of the units (graph/op_work.h). Transfers are not included.
UnitPrices price_units(const ModelSpec& model, const StageShape& shape, const Hardware& hardware,
                       OfDevices which = OfDevices::Fastest);
UnitPrices price_units(const RunPlan& plan, const Hardware& hardware,
                       OfDevices which = OfDevices::Fastest);
PlanPrices price_places(const RunPlan& plan, const Hardware& hardware,
                        OfDevices which = OfDevices::Fastest);
// Returns for every part the lower, or the higher, of two prices of the same units.
UnitPrices join_prices(UnitPrices a, const UnitPrices& b, OfDevices which);

// Seconds of every op for one micro-batch, each with the launches of its own kernels. On a mixed
// cluster they are those of the device which is fastest at it.
std::vector<OpSeconds> price_ops(const std::vector<OpWork>& works, const ModelSpec& model,
                                 const StageShape& shape, const Hardware& hardware);

}  // namespace trireme
