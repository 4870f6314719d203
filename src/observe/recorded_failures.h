#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "failures/failure_evidence.h"

namespace trireme {

// A failure as a run has recorded it, in metrics.jsonl or in agent.json.
struct RecordedFailure {
  int64_t number = 0;  // from 1; 0: the run does not count its failures
  int64_t epoch = 0;
  int64_t step = 0;
  double time_s = 0.0;  // Unix time
  double detected_ms = 0.0;
  int rank = -1;     // -1: unknown
  int suspect = -1;  // the rank of which the others say that it does not answer; -1: none
  std::string host;
  std::string cause;   // the whole text
  std::string folder;  // of its evidence; "": none was collected
  FailureEvidence evidence;
  // The run has gone back to a checkpoint of this step or an earlier one, and why; -1: it has not.
  int64_t goes_back_to = -1;
  std::string why_back;
  bool has_resumed = false;  // the run has continued since then
};

// Reads the `failure` lines of a metrics.jsonl. An error names the damaged line; a last line that
// has no end was cut by a crash and is left out.
Result<std::vector<RecordedFailure>> failures_of_metrics(std::string_view text,
                                                         const std::string& path);

// Adds the failure of an evidence.json, such as one before the first step, which metrics.jsonl does
// not have.
Status add_failure_of_evidence(std::string_view text, const std::string& path,
                               std::vector<RecordedFailure>& failures);

// Adds the failures of an agent.json that metrics.jsonl does not have, because the run has ended
// with them.
Status add_failures_of_agent(std::string_view text, const std::string& path,
                             std::vector<RecordedFailure>& failures);

}  // namespace trireme
