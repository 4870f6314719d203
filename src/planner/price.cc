#include "planner/price.h"

namespace trireme {
namespace {

constexpr double kAssumedCopyBytesPerFlop = 0.3;

// Full recomputation runs the layers forward again, the head not; selective recomputation runs
// norms and activations, which only touch memory.
double recompute_seconds(const RunPlan& plan, double layers_share, const ComputeCost& cost) {
  switch (plan.shape.recompute) {
    case Recompute::None:
      return 0.0;
    case Recompute::Selective:
      return cost.touch_s;
    case Recompute::Full:
      return layers_share * cost.matmul_s + cost.attention_s + cost.touch_s;
  }
  return 0.0;
}

}  // namespace

double peak_flops(const RunPlan& plan, const Hardware& hardware) {
  return plan.shape.compute == DType::BF16 ? hardware.bf16_flops : hardware.fp32_flops;
}

ComputeCost price_compute(const RunPlan& plan, const Hardware& hardware) {
  const double peak = peak_flops(plan, hardware);
  const double tokens = double(plan.shape.micro_sequences * plan.model.seq_len);
  ComputeCost cost;
  // A third of a training step's FLOPs each: forward, dX, dW. Attention has no dW; its backward
  // pass does 2.5 times its forward, all of it in B.
  cost.matmul_s = tokens * plan.flops_per_token.matmul / 3.0 / (peak * hardware.matmul_share);
  cost.attention_s =
      tokens * plan.flops_per_token.attention / 3.0 / (peak * hardware.attention_share);
  // Saved tensors are written once in F and read once in each half of the backward pass.
  StageShape shape = plan.shape;
  shape.tp = shape.cp = shape.ep = 1;
  shape.split_backward = false;  // a stage's price may not depend on the schedule, nor the split
  const StageTables tables = stage_tables(plan.model, whole_model(plan.model), shape);
  cost.touch_s =
      double(tables.saved.bytes() + tables.scratch.bytes()) / hardware.memory_bytes_per_s;
  const double head_flops = 6.0 * double(plan.model.vocab_size * plan.model.d_model);
  cost.recompute_s = recompute_seconds(plan, 1.0 - head_flops / plan.flops_per_token.matmul, cost);

  cost.forward_s = cost.matmul_s + cost.attention_s + cost.touch_s;
  cost.backward_input_s = cost.matmul_s + 2.5 * cost.attention_s + cost.touch_s + cost.recompute_s;
  cost.backward_weight_s = cost.matmul_s + cost.touch_s;
  // Gradients are read for the norm and again for the update; the update reads and writes its state
  // and writes the parameters.
  const double update_bytes = 2.0 * double(tables.grads.bytes()) +
                              2.0 * double(tables.optimizer.bytes()) +
                              2.0 * double(tables.params.bytes());
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
