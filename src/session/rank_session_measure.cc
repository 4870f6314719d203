#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "base/units.h"
#include "calibrate/measure_offload.h"
#include "calibrate/measure_run_kernels.h"
#include "comm/calibrate_comm.h"
#include "kernels/ceilings.h"
#include "program/action_legend.h"
#include "session/rank_hardware.h"
#include "session/rank_session.h"

namespace trireme {

// All ranks decide alike: only rank 0 keeps anything, once all have taken part in its measurement.
// If ranks are lost, the others use what more of them have measured, because measuring again would
// hold up the recovery for about a second. Once all are back, it is right again.
bool RankSession::take_measured() {
  if (!options_.order) return false;
  const JobPage& page = options_.link->page();
  MeasuredMachine kept;
  if (page.measured_bytes != int(sizeof kept)) return false;
  std::memcpy(&kept, page.measured.data(), sizeof kept);
  if (kept.num_ranks < plan_.num_ranks()) return false;
  const int num_threads = plan_.num_ranks() * plan_.num_threads;
  const double part = double(num_threads) / kept.num_threads;
  kept.peaks.fp32_flops_per_s *= part;
  kept.peaks.bf16_flops_per_s *= part;
  kept.num_ranks = plan_.num_ranks();
  kept.num_threads = num_threads;
  measured_ = kept;
  return true;
}

void RankSession::keep_measured() const {
  if (options_.link == nullptr || !is_first()) return;
  JobPage& page = options_.link->page();
  std::memcpy(page.measured.data(), &measured_, sizeof measured_);
  page.measured_bytes = int(sizeof measured_);
}

// Ranks with cores of their own measure their kernels at the same time, because they share the
// memory. Of ranks that share cores only rank 0 measures, while the others wait, and its rates are
// shared out. Hosts are taken to be alike. All ranks measure the links together. If all of them
// have a hardware file (run.hardware), neither kernels nor offloading are measured, because the
// file states their rates. The peaks and the calls are always measured.
void RankSession::measure_machine() {
  if (take_measured()) return;
  std::unique_ptr<SlowNote> note = note_if_slow("measuring this machine");
  Group& world = world_.group();
  const double on_host = ranks_on_host(plan_, options_.host);
  const double threads = on_host * plan_.num_threads, cores = options_.host.num_cores;
  // If the ranks of one host share cores or lack the file, all ranks make the calls of those.
  int64_t votes[] = {threads > cores ? 1 : 0, options_.hardware ? 0 : 1};
  world.all_reduce({votes, DType::I64, Shape{2}}, ReduceOp::Max);
  const bool is_crowded = votes[0] != 0, lacks_file = votes[1] != 0;
  if (!is_crowded || is_first()) {
    Stream& stream = engine_.ctx().stream;
    const auto together = [&] {
      if (!is_crowded) world.barrier();
    };
    together();
    measured_.peaks = measure_compute_ceilings(stream, choice_.isa);
    if (lacks_file) {
      measured_.kernels = measure_run_kernels(*choice_.kernels, stream, kernel_sizes(plan_),
                                              measured_.peaks, together);
    }
  }
  if (is_crowded) {
    world.barrier();
  } else {
    take_mean_of_ranks();
  }
  const double share = std::min(1.0, std::max(cores, double(plan_.num_threads)) / threads);
  measured_.peaks.fp32_flops_per_s *= share * plan_.num_ranks();
  measured_.peaks.bf16_flops_per_s *= share * plan_.num_ranks();
  measured_.kernels.memory_bytes_per_s *= share;
  measured_.kernels.matmul_bytes_per_s *= share;
  const bool offloads = plan_.config.memory.offload != OffloadChoice::None;
  if (is_first() && offloads && lacks_file) {
    measured_.offload = measure_offload(offload_folder(), offload_bytes(plan_), *choice_.kernels,
                                        engine_.ctx().stream);
  }
  world.barrier();
  measured_.num_ranks = plan_.num_ranks();
  measured_.num_threads = plan_.num_ranks() * plan_.num_threads;
  measured_.shares_host = on_host > 1.0;
  measured_.shares_cores = plan_.num_ranks() > 1 && threads >= cores;
  measured_.calls = measure_calls(world_);
  note.reset();
  keep_measured();
  tell_scattered();
}

double RankSession::measure_peak() {
  const double threads = double(ranks_on_host(plan_, options_.host)) * plan_.num_threads;
  const double cores = options_.host.num_cores;
  const double share = std::min(1.0, std::max(cores, double(plan_.num_threads)) / threads);
  const ComputeCeilings again = measure_compute_ceilings(engine_.ctx().stream, choice_.isa);
  const double scale = share * plan_.num_ranks();
  measured_.peaks =
      greater_of(measured_.peaks, {scale * again.fp32_flops_per_s, scale * again.bf16_flops_per_s});
  keep_measured();
  return peak_flops();
}

void RankSession::show_program() const {
  if (options_.link == nullptr) return;
  const int num_chunks = plan_.schedule.num_chunks;
  std::vector<std::string> actions;
  for (const Action& action : engine_.rank_plan().program) {
    actions.push_back(
        fmt::format("{} ({})", to_string(action, num_chunks), action_legend({action}, num_chunks)));
  }
  options_.link->program().show(actions);
}

std::unique_ptr<SlowNote> RankSession::note_if_slow(const std::string& text) const {
  if (!is_first()) return nullptr;
  return std::make_unique<SlowNote>(options_.told_after_s, [this, text] { tell(text); });
}

std::string RankSession::preparing_text() const {
  const int ranks = plan_.num_ranks();
  return fmt::format("preparing {} of memory{}", format_bytes(plan_.largest().memory.arena_bytes),
                     ranks > 1 ? fmt::format(" for each of {} ranks", ranks) : "");
}

void RankSession::take_mean_of_ranks() {
  RunKernels& kernels = measured_.kernels;
  double* const numbers[] = {&measured_.peaks.fp32_flops_per_s,
                             &measured_.peaks.bf16_flops_per_s,
                             &kernels.matmul_share,
                             &kernels.matmul_bytes_per_s,
                             &kernels.attention_share,
                             &kernels.vector_share,
                             &kernels.memory_bytes_per_s,
                             &kernels.launch_s};
  std::array<float, std::size(numbers)> means;
  std::transform(std::begin(numbers), std::end(numbers), means.begin(),
                 [](const double* number) { return float(*number); });
  world_.group().all_reduce({means.data(), DType::F32, Shape{int64_t(means.size())}},
                            ReduceOp::Mean);
  for (size_t i = 0; i < means.size(); ++i) *numbers[i] = double(means[i]);
}

namespace {

// True if the cluster file has nodes of several sizes, and the ranks lie on its nodes.
bool are_nodes_of(const Hardware& hardware, const std::vector<int>& node_of) {
  const NodeMap stated = hardware.nodes();
  if (stated.are_equal()) return false;
  for (size_t rank = 1; rank < node_of.size(); ++rank) {
    const bool share_node = node_of[rank - 1] == node_of[rank];
    if (stated.share_node(int64_t(rank) - 1, int64_t(rank)) != share_node) return false;
  }
  return true;
}

}  // namespace

void RankSession::tell_scattered() const {
  const std::vector<int>& nodes = world_.node_of();
  const bool is_one_node = std::count(nodes.begin(), nodes.end(), nodes[0]) == world_.size();
  if (is_one_node || measured_.calls.ranks_per_node == ranks_on_host(plan_, options_.host)) return;
  if (options_.hardware && are_nodes_of(*options_.hardware, nodes)) return;
  tell(
      "the ranks of a host do not follow each other, or hosts have different numbers of ranks; "
      "times and bytes are predicted for other hosts than these: start the ranks host by host, "
      "as many on each (mpirun --map-by slot)");
}

}  // namespace trireme
