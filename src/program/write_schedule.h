#pragma once

#include <iosfwd>
#include <string_view>

#include "base/chrome_trace.h"
#include "program/timeline.h"
#include "spec/program.h"

namespace trireme {

// Durations as they stand in the meta line of the JSON lines form.
struct OpDurations {
  double f = 1;
  double b = 1;
  double w = 1;
  double comm = 0;
};

// "loop", "v", "bidir"
std::string_view name_of(StagePlacement placement);

// One line a rank: "rank 0: F0 F1 BW0 ...".
void write_text(std::ostream& out, const Schedule& schedule);

// docs/schedules.md has the format: a meta line, then one line a rank with its F, B, W, BW and FB.
// Here alone the micro-batches of DualPipe are numbered per direction.
void write_jsonl(std::ostream& out, const Schedule& schedule, const OpDurations& durations);

// One process of a Chrome trace: a row per rank, a box per action that takes time, an arrow per
// message. Timelines may be simulated or measured: written as two processes they lie one above the
// other.
void write_trace(ChromeTraceWriter& writer, const Schedule& schedule, const Timeline& timeline,
                 int process, std::string_view process_name);

}  // namespace trireme
