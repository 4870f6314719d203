#pragma once

#include <cstdint>
#include <string>

#include "schema/run_config.h"

namespace trireme {

// The keys of a layout that may change from one epoch of a job to the next, and the batch, which
// must not. All other keys stay as they are configured. It travels between processes as it is.
struct EpochLayout {
  int32_t dp = 1;
  int32_t tp = 1;
  int32_t pp = 1;
  int32_t cp = 1;
  int32_t zero = 0;
  int32_t hsdp_shard = 0;
  int32_t chunks = 0;
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  Recompute recompute = Recompute::None;
  uint8_t sequence = 0;  // 0 or 1, as the next one
  uint8_t tp_overlap = 0;
  // All ranks if the places of the pipeline have degrees of their own; parallel.stage_tp and
  // stage_dp stay as they are configured then. 0: the ranks are dp * tp * pp * cp.
  int32_t uneven_ranks = 0;
  int64_t global_sequences = 1;  // of a step

  int num_ranks() const { return uneven_ranks > 0 ? uneven_ranks : dp * tp * pp * cp; }
  bool operator==(const EpochLayout&) const = default;
};

EpochLayout epoch_layout_of(const RunConfig& config);  // of a valid configuration
// Gives a configuration this layout. The batch stays that of the job, also if the configuration
// derives it from parallel.dp.
RunConfig with_epoch_layout(RunConfig config, const EpochLayout& layout);

// False if no configuration of so many ranks has this layout.
bool is_possible(const EpochLayout& layout, int num_ranks);

// Returns text such as "dp=2 pp=2 zero=1 schedule=zb_h1"; keys at their lowest value are left out,
// except for dp.
std::string text_of(const EpochLayout& layout);

}  // namespace trireme
