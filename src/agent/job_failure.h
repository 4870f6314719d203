#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "failures/classify.h"

namespace trireme {

// A failure of a job, as its agent has noticed it.
struct JobFailure {
  int rank = -1;                  // -1: no rank is known to be the cause
  uint64_t epoch = 1;             // in which it happened
  int64_t step = 0;               // last step done before it
  int64_t furthest_step = 0;      // of the job so far
  double detected_after_s = 0.0;  // since the last step was done
  std::string kind;               // killed, crashed, failed, hang, host or lost
  std::string what;               // such as "was killed by signal 9 (Killed)"
  std::string host;               // of the rank
  std::string cause;              // the message of the rank, if it has left one
  int exit_code = 5;
  double time_s = 0.0;  // Unix time of the detection
  FailureEvidence evidence = {};
  // True if the job resumes without the samples of the evidence (run.skip_bad_batches).
  bool is_left_out = false;
  // The steps of the checkpoint from which the epoch resumed, and of the newest older one that was
  // there. -1: there was none, or nobody knows.
  int64_t resumed_step = -1;
  int64_t older_step = -1;
  // The job resumes from a checkpoint of this step or an earlier one, and the reason. -1: it
  // resumes from the newest one.
  int64_t goes_back_to = -1;
  std::string why_back = {};
  Classification found = {};  // what the evidence says; unknown if nobody has classified it
};

// Names the class of a failure. If it is empty, failures are recorded without a class.
using ClassifyFailure = std::function<Classification(const FailureEvidence& evidence)>;

// Reads the evidence that a rank has told as JSON. A damaged text leaves it as it is.
void take_evidence(const char* text, FailureEvidence& evidence);

// The text of a failure as a line of metrics.jsonl. `number` counts the failures of the job from 1.
std::string failure_line(const JobFailure& failure, int number);

// The message of a failure, for people and for `cause` of its line.
std::string cause_of(const JobFailure& failure);

// Folder in the folder of a run. It has a folder for the evidence of each failure: 001, 002, ...
inline constexpr const char* kFailuresFolder = "failures";
std::string evidence_folder(const std::string& run_dir, int number);
// The greatest number of such a folder that is there; 0: none.
int last_evidence_in(const std::string& run_dir);

}  // namespace trireme
