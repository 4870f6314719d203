#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "program/write_schedule.h"
#include "sim/simulate.h"

namespace trireme {

enum class ScheduleFormat { Text, Jsonl, Svg, Html, Trace };

// `trireme schedule KIND --stages P --microbatches M ...` after parsing.
struct ScheduleOptions {
  std::string kind;
  int num_stages = 1;  // number of ranks; each holds num_chunks stages
  int num_microbatches = 1;
  int num_chunks = 0;  // 0: the default of the kind
  OpDurations times;   // per operation of one chunk
  ScheduleFormat format = ScheduleFormat::Text;
  double memory_limit = 0;  // for auto: most chunk activations alive on a rank; 0: no limit
};

// The formats are "text", "jsonl", "svg", "html" and "trace".
Result<ScheduleFormat> parse_schedule_format(std::string_view text);

// Parses "F,B,W,C"; each is a finite number and not negative.
Result<OpDurations> parse_schedule_times(std::string_view text);

// Returns the schedule that the options describe. A Usage error if the options do not fit together.
Result<Schedule> schedule_of(const ScheduleOptions& options);
// Returns the durations as the costs that simulate() reads.
Costs costs_of(const OpDurations& times);

// Writes only the schedule to `out`, and nothing if it is refused.
Status run_schedule(const ScheduleOptions& options, std::ostream& out);

}  // namespace trireme
