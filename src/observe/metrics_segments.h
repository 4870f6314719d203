#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace trireme {

// A long run writes metrics.jsonl in parts. When the file has run.metrics_bytes, it is renamed and
// a new one begins. metrics.1.jsonl is the first part, metrics.jsonl always the last one. Each part
// begins with a `run` line.

// Returns the path of part `number`, from 1, beside metrics.jsonl.
std::string metrics_part(const std::string& path, int64_t number);
// Returns the number n for which metrics.1.jsonl to metrics.n.jsonl exist beside metrics.jsonl.
int64_t num_metrics_parts(const std::string& path);
// Returns the text of all parts and of metrics.jsonl, in their order. `path` is that of
// metrics.jsonl. An error if one of these files has more than most_bytes or cannot be read.
Result<std::string> read_metrics(const std::string& path, int64_t most_bytes = INT64_MAX);

}  // namespace trireme
