#include "compile/step_price.h"

#include <algorithm>

#include "compile/kernel_price.h"

namespace trireme {

int64_t state_bytes(const StageShape& shape) {
  const OptimizerStateSpec& state = shape.optimizer_state;
  const bool has_second = state.exp_avg_sq && !state.muon;
  const int64_t moment_bytes = (state.exp_avg + has_second) * size_of(state.moment);
  return moment_bytes + (state.has_master(shape.compute) ? size_of(DType::F32) : 0);
}

double price_update(double elements, const StageShape& shape, const Hardware& hardware,
                    OfDevices which) {
  if (hardware.is_mixed()) {
    double joined = price_update(elements, shape, hardware.all_of_device(0));
    for (int device = 1; device < hardware.num_devices(); ++device) {
      const double other = price_update(elements, shape, hardware.all_of_device(device));
      joined = which == OfDevices::Fastest ? std::min(joined, other) : std::max(joined, other);
    }
    return joined;
  }
  if (hardware.practice.update_bytes > 0.0) {
    return price_memory(elements * hardware.practice.update_bytes, 0, hardware);
  }
  const int64_t bytes = 2 * (size_of(shape.grad) + state_bytes(shape) + size_of(shape.compute));
  return price_memory(elements * double(bytes), 0, hardware);
}

double peak_flops(const RunPlan& plan, const Hardware& hardware) {
  if (hardware.is_mixed()) {
    double sum = 0.0;
    for (int device = 0; device < hardware.num_devices(); ++device) {
      const double peak = hardware.all_of_device(device).peak_flops(plan.shape.compute);
      sum += peak * (double(hardware.ranks_of_device(device, plan.num_ranks())) / plan.num_ranks());
    }
    return sum;
  }
  return hardware.peak_flops(plan.shape.compute);
}

}  // namespace trireme
