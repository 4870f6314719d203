#pragma once

#include <string>
#include <vector>

#include "agent/job_failure.h"

namespace trireme {

// Decides whether a job resumes after a failure.
class RestartPolicy {
 public:
  // With `skips_bad_batches`, a job whose step fails twice in the same way resumes without the
  // samples of this step.
  explicit RestartPolicy(int max_restarts, bool skips_bad_batches = false)
      : max_restarts_(max_restarts), skips_bad_batches_(skips_bad_batches) {}
  // Records the failure, and sets is_left_out in the record if the job resumes without its samples.
  // Returns why the job must end, or "" if it resumes.
  std::string why_end(JobFailure failure);
  // Records a failure after which the job resumes in any case.
  void note(const JobFailure& failure) { failures_.push_back(failure); }
  const std::vector<JobFailure>& failures() const { return failures_; }

 private:
  std::string reason(JobFailure& failure) const;
  std::string leave_out(JobFailure& failure) const;

  int max_restarts_;
  bool skips_bad_batches_;
  std::vector<JobFailure> failures_;
};

}  // namespace trireme
