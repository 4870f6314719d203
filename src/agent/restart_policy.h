#pragma once

#include <string>
#include <vector>

#include "agent/job_failure.h"
#include "base/sample_range.h"

namespace trireme {

// Decides whether a job resumes after a failure, and from what: from the newest checkpoint, from it
// without the samples of the step, or from an older one (docs/failures.md, the ladder).
class RestartPolicy {
 public:
  // With `skips_bad_batches`, a job whose step fails twice in the same way resumes without the
  // samples of this step.
  explicit RestartPolicy(int max_restarts, bool skips_bad_batches = false)
      : max_restarts_(max_restarts), skips_bad_batches_(skips_bad_batches) {}
  // Records the failure, and sets is_left_out or goes_back_to in the record if the job resumes
  // without its samples or from an older checkpoint. Returns why the job must end, or "" if it
  // resumes.
  std::string why_end(JobFailure failure);
  // Records a failure after which the job resumes in any case.
  void note(const JobFailure& failure) { failures_.push_back(failure); }
  const std::vector<JobFailure>& failures() const { return failures_; }
  // All samples that the job leaves out. Those that were not the cause are taken back when the job
  // goes back to an older checkpoint.
  std::vector<SampleRange> left_out() const;

 private:
  std::string reason(JobFailure& failure) const;
  std::string reason_of_repetition(JobFailure& failure) const;
  std::string leave_out(JobFailure& failure, const std::string& twice) const;
  std::string go_back(JobFailure& failure, const std::string& why) const;
  std::vector<const JobFailure*> without_progress(const JobFailure& failure) const;

  int max_restarts_;
  bool skips_bad_batches_;
  std::vector<JobFailure> failures_;
};

}  // namespace trireme
