#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/restart_policy.h"
#include "base/result.h"

namespace trireme {

// A failure of a host, as the history of a job remembers it.
struct HostFailure {
  std::string host;
  std::string kind;
  double time_s = 0.0;  // Unix time
  double weight = 1.0;  // of the failure in the score
};

// The file in the folder of a run: one JSON object a line.
inline constexpr const char* kHostHistoryFile = "host_history.jsonl";
inline constexpr double kHistoryHalfLifeS = 7 * 86400.0;
// A host whose score is at least this is left out: three failures within a day or so.
inline constexpr double kDrainScore = 2.9;
// A host that alone has computed wrong numbers counts as three failures: it may do so again without
// anybody noticing.
inline constexpr double kWrongHostWeight = 3.0;

// Reads the text of a history. An error names the line that is damaged.
Result<std::vector<HostFailure>> host_failures_in(std::string_view text, const std::string& path);
// Reads the history in the folder of a run. Returns an empty list if there is no such file. An
// error names the line that is damaged.
Result<std::vector<HostFailure>> read_host_history(const std::string& run_dir);
// Returns the failures for which a host may be to blame. Leaves out those without a known host and
// those that a signal from outside has caused. If numbers were wrong, the hosts of the ranks that
// may have computed them are to blame, with the kind "corrupted": one host alone with
// kWrongHostWeight, several with equal shares of one failure.
std::vector<HostFailure> host_failures_of(const std::vector<JobFailure>& failures);
// Returns the failures of host_failures_of() as lines of the history file.
std::string history_lines(const std::vector<JobFailure>& failures);

// Sum over the failures of the host of weight 2^(-age / half-life).
double score_of(const std::vector<HostFailure>& failures, const std::string& host, double now_s);

}  // namespace trireme
