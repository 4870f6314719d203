#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "program/write_schedule.h"

namespace trireme {

enum class ScheduleFormat { Text, Jsonl, Svg, Html, Trace };

// `trireme schedule KIND --stages P --microbatches M ...` after parsing.
struct ScheduleOptions {
  std::string kind;
  int num_stages = 1;  // ranks; a rank holds num_chunks stages
  int num_microbatches = 1;
  int num_chunks = 0;  // 0: what the kind means
  OpDurations times;   // per op of one chunk
  ScheduleFormat format = ScheduleFormat::Text;
  double memory_limit = 0;  // auto: most activations (of a chunk) alive on a rank; 0: no limit
};

// "text", "jsonl", "svg", "html", "trace"
Result<ScheduleFormat> parse_schedule_format(std::string_view text);

// "F,B,W,C", each a finite number, not negative
Result<OpDurations> parse_schedule_times(std::string_view text);

// Writes the schedule and nothing else to `out`; nothing at all where it is refused.
Status run_schedule(const ScheduleOptions& options, std::ostream& out);

}  // namespace trireme
