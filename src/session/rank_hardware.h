#pragma once

#include <type_traits>

#include "agent/job_page.h"
#include "calibrate/measure_offload.h"
#include "calibrate/measure_run_kernels.h"
#include "comm/calibrate_comm.h"
#include "compile/run_plan.h"
#include "schema/ceilings.h"
#include "schema/hardware.h"

namespace trireme {

int ranks_on_host(const RunPlan& plan, const HostFacts& host);

// Sizes of what a rank of the run computes.
KernelSizes kernel_sizes(const RunPlan& plan);

// What memory.offload keeps of the whole model in files.
int64_t offload_bytes(const RunPlan& plan);

// Scales the rates of computing and of memory, which the cores of a rank share out.
void scale_cores(Hardware& hardware, double factor);

// One rank's share of a hardware file, whose rates are those of `threads` threads together. If
// threads share cores, they count as many as the host has cores.
Hardware share_of(Hardware hardware, const RunPlan& plan, const HostFacts& host);

// The file of which one rank's share is `hardware`. Hosts are taken to be alike.
Hardware of_all_ranks(Hardware hardware, const RunPlan& plan, const HostFacts& host);

// A machine as a session has measured it, also for later epochs of the job.
struct MeasuredMachine {
  int num_ranks = 0;
  int num_threads = 0;        // of all ranks
  bool shares_cores = false;  // communication threads have no cores of their own
  bool shares_host = false;   // several ranks are on each host
  ComputeCeilings peaks;      // of all ranks together
  RunKernels kernels;         // of one rank
  MeasuredCalls calls;
  MeasuredOffload offload;  // of all ranks together
};
static_assert(std::is_trivially_copyable_v<MeasuredMachine>);
static_assert(sizeof(MeasuredMachine) <= sizeof(JobPage::measured));

// One rank's share of the machines of the run.
Hardware hardware_of(const MeasuredMachine& measured);

}  // namespace trireme
