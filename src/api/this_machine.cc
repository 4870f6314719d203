#include "api/this_machine.h"

#include "device/buffer.h"
#include "device/host.h"
#include "device/stream.h"
#include "kernels/ceilings.h"
#include "planner/price.h"
#include "train/kernel_choice.h"

namespace trireme {

HostFacts this_host() { return {available_memory_bytes(), num_available_cores(), 0}; }

Result<Hardware> measure_this_machine(const RunConfig& config, const HostFacts& host) {
  TRIREME_TRY(choice, choose_kernels(config.run.isa));
  ThreadTeam team(config.run.threads_per_rank > 0 ? config.run.threads_per_rank : host.num_cores);
  const Buffer workspace = Buffer::allocate(team.size() * kWorkspaceBytesPerThread);
  Stream stream(team, {static_cast<std::byte*>(workspace.data()), size_t(workspace.bytes())});
  Hardware hardware = assumed_hardware(measure_compute_ceilings(stream, choice.isa));
  hardware.threads = team.size();
  hardware.memory_bytes = host.memory_bytes;
  return hardware;
}

}  // namespace trireme
