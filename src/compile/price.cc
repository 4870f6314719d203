#include "compile/price.h"

#include "compile/again_price.h"

namespace trireme {
namespace {

constexpr double kAssumedCopyBytesPerFlop = 0.3;

// Full recomputation runs the layers forward again, but not the head. Selective recomputation runs
// norms and activations again, which only read and write memory.
double recompute_seconds(const RunPlan& plan, const Hardware& hardware, double layers_share,
                         const ComputeCost& cost) {
  switch (plan.shape.recompute) {
    case Recompute::None:
      return 0.0;
    case Recompute::Selective:
      return cost.touch_s;
    case Recompute::Full:
      return layers_share * cost.matmul_s + cost.attention_s + cost.touch_s;
    case Recompute::Fit:
      return again_seconds(plan, hardware);
  }
  return 0.0;
}

struct TableBytes {
  double params = 0.0, grads = 0.0, optimizer = 0.0, saved = 0.0, scratch = 0.0;
};

TableBytes bytes_of(const ModelSpec& model, int64_t layers, const StageShape& shape) {
  const StageTables tables = stage_tables(model, {0, layers, true, true}, shape);
  return {double(tables.params.bytes()), double(tables.grads.bytes()),
          double(tables.optimizer.bytes()), double(tables.saved.bytes()),
          double(tables.scratch.bytes())};
}

// All layers have the same size, so the size of many follows from the sizes of one and of two.
TableBytes whole_model_bytes(const ModelSpec& model, const StageShape& shape) {
  TableBytes one = bytes_of(model, 1, shape);
  if (model.layers == 1) return one;
  const TableBytes two = bytes_of(model, 2, shape);
  const double more = double(model.layers - 1);
  for (double TableBytes::*bytes :
       {&TableBytes::params, &TableBytes::grads, &TableBytes::optimizer, &TableBytes::saved}) {
    one.*bytes += more * (two.*bytes - one.*bytes);
  }
  return one;
}

}  // namespace

double peak_flops(const RunPlan& plan, const Hardware& hardware) {
  return plan.shape.compute == DType::BF16 ? hardware.bf16_flops : hardware.fp32_flops;
}

ComputeCost price_compute(const RunPlan& plan, const Hardware& hardware) {
  const double peak = peak_flops(plan, hardware);
  const double tokens = double(plan.shape.micro_sequences * plan.model.seq_len);
  ComputeCost cost;
  // Forward, dX and dW take a third of the matmul FLOPs each. Attention has no dW; its backward
  // pass takes 2.5 times its forward, all of it in B.
  cost.matmul_s = tokens * plan.flops_per_token.matmul / 3.0 / (peak * hardware.matmul_share);
  cost.attention_s =
      tokens * plan.flops_per_token.attention / 3.0 / (peak * hardware.attention_share);
  // Saved tensors are written once in F and read once in each half of the backward pass.
  StageShape shape = plan.shape;
  shape.tp = shape.cp = shape.ep = 1;
  shape.slices = 0;
  // So that the price does not depend on the schedule or on its split.
  shape.split_backward = false;
  shape.again = 0;  // a value that `fit` computes again is written in F, too
  const TableBytes bytes = whole_model_bytes(plan.model, shape);
  cost.touch_s = (bytes.saved + bytes.scratch) / hardware.memory_bytes_per_s;
  const double head_flops = 6.0 * double(plan.model.vocab_size * plan.model.d_model);
  cost.recompute_s =
      recompute_seconds(plan, hardware, 1.0 - head_flops / plan.flops_per_token.matmul, cost);

  cost.forward_s = cost.matmul_s + cost.attention_s + cost.touch_s;
  cost.backward_input_s = cost.matmul_s + 2.5 * cost.attention_s + cost.touch_s + cost.recompute_s;
  cost.backward_weight_s = cost.matmul_s + cost.touch_s;
  // Step reads the gradients for the norm and again for the update. The update reads and writes the
  // optimizer state and writes the parameters.
  const double update_bytes = 2.0 * (bytes.grads + bytes.optimizer + bytes.params);
  cost.step_s = update_bytes / hardware.memory_bytes_per_s;
  return cost;
}

Hardware assumed_hardware(const ComputeCeilings& ceilings) {
  Hardware hardware;
  hardware.name = "this machine";
  hardware.fp32_flops = ceilings.fp32_flops_per_s;
  hardware.bf16_flops = ceilings.bf16_flops_per_s;
  hardware.memory_bytes_per_s = kAssumedCopyBytesPerFlop * ceilings.fp32_flops_per_s;
  return hardware;
}

}  // namespace trireme
