#pragma once

#include <iosfwd>
#include <string_view>

#include "base/chrome_trace.h"
#include "program/timeline.h"
#include "schema/program.h"

namespace trireme {

// Durations for the meta line of the JSON lines format.
struct OpDurations {
  double f = 1;
  double b = 1;
  double w = 1;
  double comm = 0;
};

// Returns "loop", "v" or "bidir".
std::string_view name_of(StagePlacement placement);

// Writes one line per rank: "rank 0: F0 F1 BW0 ...".
void write_text(std::ostream& out, const Schedule& schedule);

// Writes the format of docs/schedules.md: a meta line, then one line per rank with its F, B, W, BW
// and FB. Only in this format the micro-batches of DualPipe are numbered per direction.
void write_jsonl(std::ostream& out, const Schedule& schedule, const OpDurations& durations);

// Writes one process of a Chrome trace: a row per rank, a box per action that takes time, an arrow
// per message. A simulated and a measured timeline written as two processes are shown one above the
// other.
void write_trace(ChromeTraceWriter& writer, const Schedule& schedule, const Timeline& timeline,
                 int process, std::string_view process_name);

}  // namespace trireme
