#include "api/this_machine.h"

#include <algorithm>

#include "calibrate/measure_run_kernels.h"
#include "comm/calibrate_comm.h"
#include "comm/world.h"
#include "device/core_binding.h"
#include "device/host.h"
#include "kernels/ceilings.h"
#include "kernels/own_stream.h"
#include "schema/mesh.h"
#include "schema/model_spec.h"
#include "session/rank_hardware.h"
#include "train/kernel_choice.h"

namespace trireme {

HostFacts this_host() { return {available_memory_bytes(), num_available_cores(), 0}; }

namespace {

// Measures calls between two ranks that wait for each other, which is the latency of a layer's
// collectives.
MeasuredCalls measure_two_ranks() {
  MeasuredCalls calls;
  run_ranks(2, {}, [&](World& world) {
    const CoreBinding binding(world.rank(), 2, 1);
    const MeasuredCalls measured = measure_calls(world);
    if (world.rank() == 0) calls = measured;
  });
  return calls;
}

// The sizes of a configuration that has no plan yet; those of a small layer if it can have none.
KernelSizes sizes_of(const RunConfig& config, int num_ranks) {
  constexpr int64_t kUsualVocabSize = 50257;
  constexpr int64_t kUsualBytes = int64_t{1} << 28;
  ModelConfig stated = config.model;
  if (stated.vocab_size == 0) stated.vocab_size = kUsualVocabSize;
  const Result<ModelSpec> resolved = resolve_model(stated, stated.vocab_size);
  const ModelSpec model = resolved.ok() ? *resolved : ModelSpec{};
  const ParallelConfig& parallel = config.parallel;
  const int64_t tp = std::max(1, parallel.tp), cp = std::max(1, parallel.cp);
  const int64_t layer_params = 4 * model.d_model * model.d_model + 2 * model.d_model * model.d_ff;
  const int64_t params = layer_params * model.layers + model.vocab_size * model.d_model;
  return {.compute = config.precision.compute == ComputeChoice::Bf16 ? DType::BF16 : DType::F32,
          .tokens = std::max<int64_t>(1, config.batch.micro_sequences) * model.seq_len / cp,
          .d_model = model.d_model,
          .d_ff = model.d_ff / tp,
          .vocab_size = model.vocab_size / tp,
          .has_relu = model.mlp == MlpType::Relu || model.mlp == MlpType::Relu2,
          .heads = std::max<int64_t>(1, model.heads / tp),
          .seq_len = model.seq_len,
          .head_dim = model.key_dim(),
          .bytes = kUsualBytes,
          .params = std::max<int64_t>(1, params / num_ranks)};
}

}  // namespace

Result<Hardware> measure_this_machine(const RunConfig& config, const HostFacts& host) {
  TRIREME_TRY(choice, choose_kernels(config.run.isa));
  const int num_ranks = std::max(1, int(trireme::num_ranks(config.parallel)));
  const int configured = config.run.threads_per_rank;
  const int threads = configured > 0 ? configured : std::max(1, host.num_cores / num_ranks);
  // Ranks that share cores share the speed of these cores.
  const bool is_crowded = num_ranks * threads > host.num_cores;
  const int measured_ranks = is_crowded ? 1 : num_ranks;
  const KernelSizes sizes = sizes_of(config, num_ranks);
  MeasuredMachine measured{.num_ranks = num_ranks,
                           .shares_cores = num_ranks > 1 && num_ranks * threads >= host.num_cores,
                           .shares_host = num_ranks > 1};
  run_ranks(measured_ranks, {}, [&](World& world) {
    const CoreBinding binding(world.rank(), measured_ranks, threads);
    OwnStream stream(threads);
    const auto together = [&] { world.group().barrier(); };
    together();
    const ComputeCeilings peaks = measure_compute_ceilings(stream, choice.isa);
    const RunKernels kernels = measure_run_kernels(*choice.kernels, stream, sizes, peaks, together);
    if (world.rank() != 0) return;
    measured.peaks = peaks;
    measured.kernels = kernels;
  });
  const double share = std::min(1.0, double(host.num_cores) / (double(num_ranks) * threads));
  measured.peaks.fp32_flops_per_s *= share * num_ranks;
  measured.peaks.bf16_flops_per_s *= share * num_ranks;
  measured.kernels.memory_bytes_per_s *= share;
  measured.kernels.matmul_bytes_per_s *= share;
  if (num_ranks > 1) measured.calls = measure_two_ranks();
  measured.calls.ranks_per_node = num_ranks;
  Hardware hardware = hardware_of(measured);
  hardware.name = "this machine";
  hardware.threads = threads;
  hardware.memory_bytes = host.memory_bytes;
  return hardware;
}

}  // namespace trireme
