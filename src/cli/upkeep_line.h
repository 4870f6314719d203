#pragma once

#include <string>
#include <vector>

#include "cli/command_io.h"
#include "cli/progress_line.h"
#include "store/upkeep_meter.h"

namespace trireme {

// Returns "repair 12/48 blocks", "384 MiB", "96 MiB/s", and the time that is left.
std::vector<std::string> parts_of(const UpkeepProgress& progress);
double bytes_per_s(const UpkeepProgress& progress);

// Shows on standard error how far a scrub, a repair or a drain is, once it lasts longer than a
// second.
class UpkeepLine {
 public:
  explicit UpkeepLine(CommandIo& io);
  OnProgress on_progress();
  // Leaves the last progress on a line of its own, if any was shown.
  void finish();

 private:
  ProgressLine line_;
  uint64_t shown_ms_ = 0;
  UpkeepKind kind_ = UpkeepKind::None;
};

}  // namespace trireme
