#include "calibrate/calibrate.h"

#include <algorithm>
#include <chrono>

#include "calibrate/measure_kernels.h"
#include "calibrate/measure_links.h"
#include "calibrate/measure_offload.h"
#include "compile/this_machine.h"
#include "device/cpu_load.h"
#include "device/host.h"
#include "kernels/ceilings.h"
#include "kernels/own_stream.h"

namespace trireme {
namespace {

// Kernels among which the time for repeating is shared out.
constexpr double kKernels = 150.0;

void set_ceilings(const Ceilings& ceilings, Hardware& hardware) {
  hardware.fp32_flops = ceilings.compute.fp32_flops_per_s;
  hardware.bf16_flops = ceilings.compute.bf16_flops_per_s;
  hardware.memory_bytes_per_s = ceilings.copy_bytes_per_s;
}

// A kernel that moves so much finds little of it in a cache.
constexpr double kBeyondCaches = double(int64_t{1} << 26);

// A kernel that beats a ceiling shows that the ceiling was measured while others took the cores.
void raise_ceilings(const MeasuredOperators& measured, Hardware& hardware) {
  for (const auto& [product, dtype, seconds] : measured.products) {
    double& ceiling = dtype == DType::BF16 ? hardware.bf16_flops : hardware.fp32_flops;
    ceiling = std::max(ceiling, product.flops() / seconds);
  }
  for (const auto& [bytes, seconds] : measured.kernels) {
    if (bytes < kBeyondCaches) continue;
    hardware.memory_bytes_per_s = std::max(hardware.memory_bytes_per_s, bytes / seconds);
  }
  hardware.fp16_flops = hardware.fp32_flops;  // fp16 is computed in fp32
}

}  // namespace

Calibration calibrate(const CalibrationOptions& options) {
  const CpuLoad load;
  const std::optional<CpuTimes> before = load.read();
  const auto begin = std::chrono::steady_clock::now();
  Calibration result;
  Hardware hardware;
  hardware.name = cpu_model();
  hardware.threads = options.num_threads;
  hardware.memory_bytes = available_memory_bytes();
  MeasuredOperators measured;
  MeasuredOffload offload;
  {
    OwnStream stream(options.num_threads);  // its threads leave the cores to the ranks below
    set_ceilings(measure_ceilings(stream, options.isa), hardware);
    const KernelTable& kernels = cpu_kernels(options.isa);
    measured = measure_kernels(kernels, stream, options.most_seconds / kKernels);
    offload = measure_offload(options.folder, kMostMeasuredOffloadBytes, kernels, stream);
    raise_ceilings(measured, hardware);
  }
  hardware.matmul_bytes_per_s = hardware.memory_bytes_per_s;  // where the fit begins
  const MeasuredLinks links = measure_links(options.num_threads, measured);
  hardware = with_own_kernels(std::move(hardware));
  hardware.reduce_bytes_per_s = 1.0 / links.cost.gamma_s_per_byte;
  hardware.set_nodes(0, {links.cost.inside.alpha_s, 1.0 / links.cost.inside.beta_s_per_byte});
  hardware.background_s = links.background_s;
  hardware.core_s_per_byte = links.core_s_per_byte;
  offload.set(1, hardware);
  result.hardware = fit_operators(hardware, measured);
  result.errors = errors_of(measured, result.hardware);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  result.seconds = elapsed.count();
  const std::optional<CpuTimes> after = load.read();
  if (before && after) result.taken_by_others = share_of_others(*before, *after);
  return result;
}

}  // namespace trireme
