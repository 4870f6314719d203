#pragma once

#include <vector>

#include "compile/run_plan.h"
#include "graph/op_half.h"
#include "graph/op_work.h"
#include "schema/ceilings.h"
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

// Seconds of one call that makes a product: its FLOPs at the share of the peak that products of its
// depth reach, or its reads and writes, or the launch of the next kernel, whichever is longest. On
// a processor all three together.
double price_product(const Product& product, DType compute, const Hardware& hardware);

// Seconds of kernels that read and write so many bytes.
double price_memory(double bytes, int calls, const Hardware& hardware);

// Seconds of the kernels of half an op that make no products: their reads and writes, or their
// operations on single numbers, whichever take longer.
double price_vectors(const HalfWork& half, const Hardware& hardware);

// Seconds of the forward pass of one op.
double price_forward(const OpWork& work, DType compute, const Hardware& hardware);

// Seconds of every op for one micro-batch, each with the launches of its own kernels.
std::vector<OpSeconds> price_ops(const std::vector<OpWork>& works, const ModelSpec& model,
                                 const StageShape& shape, const Hardware& hardware);

// FLOPs of the backward pass of attention / of its forward pass.
inline constexpr double kBackwardAttention = 2.5;

// Bytes that attention by one kernel, which stores no scores, reads and writes in its forward pass:
// queries, keys, values and its output. Its backward pass moves twice as many: the same again, and
// their gradients.
double fused_attention_bytes(const AttentionWork& work, DType compute);

// Seconds of attention by such a kernel. `factor`: FLOPs of the pass / of the forward pass.
double price_fused_attention(const AttentionWork& work, double factor, DType compute,
                             const Hardware& hardware);

// Prices of the units of a model on one rank, for one micro-batch.
struct UnitPrices {
  ComputeTimes embedding, head;
  std::vector<ComputeTimes> layers;  // [kind of layer]
  std::vector<LayerRun> kinds;       // layer_kinds of the model

  ComputeTimes of(const StageSpec& stage) const;
  // Counts only the units that the action names.
  ComputeTimes of(const StageSpec& stage, const Action& action) const;
};
// On a mixed cluster, the price of a part is that of the device which is fastest at it, or slowest.
// Both are the same if all ranks have the same device.
enum class OfDevices : uint8_t { Fastest, Slowest };

// Prices every op of the graphs of the units (graph/op_work.h). Transfers are not included.
UnitPrices price_units(const ModelSpec& model, const StageShape& shape, const Hardware& hardware,
                       OfDevices which = OfDevices::Fastest);
UnitPrices price_units(const RunPlan& plan, const Hardware& hardware,
                       OfDevices which = OfDevices::Fastest);
// Returns for every part the lower, or the higher, of two prices of the same units.
UnitPrices join_prices(UnitPrices a, const UnitPrices& b, OfDevices which);

// Bytes of the optimizer state of one parameter (one number), its master weight included. With
// Muon, of a parameter in a matrix of a layer, which has the least state.
int64_t state_bytes(const StageShape& shape);

// Seconds in which Step updates so many parameters: it reads the gradients for the norm and again
// for the update, reads and writes the optimizer state, and writes the parameters.
double price_update(double elements, const StageShape& shape, const Hardware& hardware,
                    OfDevices which = OfDevices::Fastest);

// Compute ceiling of a rank for the compute dtype, by which MFU is computed: on a mixed cluster the
// mean over all ranks of the plan.
double peak_flops(const RunPlan& plan, const Hardware& hardware);

// Describes this machine from the measured compute ceilings alone. The memory bandwidth is assumed:
// 0.3 copied bytes per fp32 FLOP, a typical value for a core of a desktop or a server. `trireme
// calibrate` measures it.
Hardware assumed_hardware(const ComputeCeilings& ceilings);

// Adds what is known of the kernels of this program on a processor: the tile of attention, and the
// share of the peak that arithmetic on vectors reaches.
Hardware with_own_kernels(Hardware hardware);

}  // namespace trireme
