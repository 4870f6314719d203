#include "cli/calibrate_command.h"

#include <fmt/format.h>

#include <ostream>

#include "base/file.h"
#include "comm/calibrate_comm.h"
#include "comm/world.h"
#include "device/buffer.h"
#include "device/host.h"
#include "kernels/ceilings.h"
#include "schema/hardware.h"

namespace trireme {
namespace {

Ceilings measure_this_machine(int num_threads, Isa isa) {
  ThreadTeam team(num_threads);
  const Buffer workspace = Buffer::allocate(num_threads * kWorkspaceBytesPerThread);
  Stream stream(team, {static_cast<std::byte*>(workspace.data()), size_t(workspace.bytes())});
  return measure_ceilings(stream, isa);
}

Hardware hardware_of(const Ceilings& ceilings, const CommCost& comm, int num_threads) {
  Hardware hardware;
  hardware.name = cpu_model();
  hardware.threads = num_threads;
  hardware.fp32_flops = ceilings.compute.fp32_flops_per_s;
  hardware.bf16_flops = ceilings.compute.bf16_flops_per_s;
  hardware.fp16_flops = ceilings.compute.fp32_flops_per_s;  // fp16 is computed in fp32
  hardware.memory_bytes_per_s = ceilings.copy_bytes_per_s;
  hardware.memory_bytes = available_memory_bytes();
  hardware.reduce_bytes_per_s = 1.0 / comm.gamma_s_per_byte;
  hardware.set_nodes(0, {comm.inside.alpha_s, 1.0 / comm.inside.beta_s_per_byte});
  return hardware;
}

}  // namespace

Result<int> run_calibrate(const CalibrateOptions& options, CommandIo& io) {
  const std::vector<Isa> isas = supported_isas();
  if (isas.empty()) {
    return Error{ErrorKind::Runtime, "this processor has no AVX2 and FMA: no kernels run on it"};
  }
  const int num_threads = options.threads > 0 ? options.threads : num_available_cores();
  const Ceilings ceilings = measure_this_machine(num_threads, isas.back());
  CommCost comm;
  run_ranks(2, {}, [&](World& world) {
    const CommCost measured = calibrate_comm(world);
    if (world.rank() == 0) comm = measured;
  });
  const std::string text =
      fmt::format("# Measured by `trireme calibrate`: {} threads, {} kernels.\n", num_threads,
                  name_of(isas.back())) +
      to_toml(hardware_of(ceilings, comm, num_threads));
  if (options.out.empty()) {
    io.out << text;
  } else {
    TRIREME_TRY_DONE(make_folders_of(options.out));
    TRIREME_TRY_DONE(write_file_atomically(options.out, text));
  }
  return 0;
}

}  // namespace trireme
