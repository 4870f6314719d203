#include "planner/price.h"

namespace trireme {

ComputeCost price_compute(const RunPlan& plan, const Hardware& hardware) {
  const double peak = plan.shape.compute == DType::F32 ? hardware.fp32_flops : hardware.bf16_flops;
  const double tokens = double(plan.shape.micro_sequences * plan.model.seq_len);
  // A third of a training step's FLOPs each: forward, dX, dW. Attention has no dW; its backward
  // pass does 2.5 times its forward, all of it in B.
  const double matmul_s =
      tokens * plan.flops_per_token.matmul / 3.0 / (peak * hardware.matmul_share);
  const double attention_s =
      tokens * plan.flops_per_token.attention / 3.0 / (peak * hardware.attention_share);
  // Saved tensors are written once in F and read once in each half of the backward pass.
  const double touch_s =
      double(plan.tables.saved.bytes() + plan.tables.scratch.bytes()) / hardware.memory_bytes_per_s;
  const double recompute = plan.shape.recompute == Recompute::Full ? 1.0 : 0.0;

  ComputeCost cost;
  cost.forward_s = matmul_s + attention_s + touch_s;
  cost.backward_input_s = matmul_s + 2.5 * attention_s + touch_s + recompute * cost.forward_s;
  cost.backward_weight_s = matmul_s + touch_s;
  // Gradients are read for the norm and again for the update; the update reads and writes its state
  // and writes the parameters.
  const double update_bytes = 2.0 * double(plan.tables.grads.bytes()) +
                              2.0 * double(plan.tables.optimizer.bytes()) +
                              2.0 * double(plan.tables.params.bytes());
  cost.step_s = update_bytes / hardware.memory_bytes_per_s;
  return cost;
}

double price_step(const RunPlan& plan, const Hardware& hardware) {
  const ComputeCost cost = price_compute(plan, hardware);
  return double(plan.num_microbatches) *
             (cost.forward_s + cost.backward_input_s + cost.backward_weight_s) +
         cost.step_s;
}

}  // namespace trireme
