#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

// A failure of a job, as its agent has classified it.
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
};

// The text of a failure as a line of metrics.jsonl. `number` counts the failures of the job from 1.
std::string failure_line(const JobFailure& failure, int number);

// Decides whether a job resumes after a failure.
class RestartPolicy {
 public:
  explicit RestartPolicy(int max_restarts) : max_restarts_(max_restarts) {}
  // Records the failure. Returns why the job must end, or "" if it resumes.
  std::string why_end(const JobFailure& failure);
  // Records a failure after which the job resumes in any case.
  void note(const JobFailure& failure) { failures_.push_back(failure); }
  const std::vector<JobFailure>& failures() const { return failures_; }

 private:
  std::string reason(const JobFailure& failure) const;

  int max_restarts_;
  std::vector<JobFailure> failures_;
};

}  // namespace trireme
