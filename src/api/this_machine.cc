#include "api/this_machine.h"

#include <algorithm>

#include "comm/calibrate_comm.h"
#include "comm/world.h"
#include "compile/price.h"
#include "device/buffer.h"
#include "device/host.h"
#include "device/stream.h"
#include "kernels/ceilings.h"
#include "train/kernel_choice.h"

namespace trireme {

HostFacts this_host() { return {available_memory_bytes(), num_available_cores(), 0}; }

namespace {

// Measures calls between two ranks that wait for each other, which is the latency of a layer's
// collectives.
LinkSpec measure_link() {
  LinkSpec link;
  run_ranks(2, {}, [&](World& world) {
    const LinkSpec measured = measure_calls(world).inside;
    if (world.rank() == 0) link = measured;
  });
  return link;
}

}  // namespace

Result<Hardware> measure_this_machine(const RunConfig& config, const HostFacts& host) {
  TRIREME_TRY(choice, choose_kernels(config.run.isa));
  const ParallelConfig& parallel = config.parallel;
  const int num_ranks = std::max(1, parallel.tp * parallel.cp * parallel.pp * parallel.dp);
  const int configured = config.run.threads_per_rank;
  ThreadTeam team(configured > 0 ? configured : std::max(1, host.num_cores / num_ranks));
  const Buffer workspace = Buffer::allocate(team.size() * kWorkspaceBytesPerThread);
  Stream stream(team, {static_cast<std::byte*>(workspace.data()), size_t(workspace.bytes())});
  ComputeCeilings ceilings = measure_compute_ceilings(stream, choice.isa);
  // Ranks that share cores share the speed of these cores.
  const double share = std::min(1.0, double(host.num_cores) / (double(num_ranks) * team.size()));
  ceilings.fp32_flops_per_s *= share;
  ceilings.bf16_flops_per_s *= share;
  Hardware hardware = with_own_kernels(assumed_hardware(ceilings));
  hardware.threads = team.size();
  hardware.memory_bytes = host.memory_bytes;
  hardware.set_nodes(num_ranks, num_ranks == 1 ? LinkSpec{} : measure_link());
  return hardware;
}

}  // namespace trireme
