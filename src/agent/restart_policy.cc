#include "agent/restart_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "agent/rank_exit_code.h"
#include "agent/rank_link.h"
#include "failures/evidence_json.h"

namespace trireme {
namespace {

constexpr int kMostWithoutProgress = 3;
// Rank 0 reports a step only at its end, so the step of a failure may be off by one.
constexpr int64_t kSameSteps = 1;
constexpr double kWindowS = 3600.0;

// True if the rank failed by its own work. False if it was killed or stopped from outside.
bool is_own(const JobFailure& failure) {
  return failure.kind == "crashed" || failure.kind == "failed";
}

bool is_same(const JobFailure& a, const JobFailure& b) {
  return a.kind == b.kind && a.what == b.what && a.cause == b.cause;
}

bool knows_samples(const JobFailure& failure) { return failure.evidence.num_samples > 0; }

// True if both failures came with the same samples, or if the samples of one are unknown.
bool may_have_same_samples(const JobFailure& a, const JobFailure& b) {
  const FailureEvidence &of_a = a.evidence, &of_b = b.evidence;
  return !knows_samples(a) || !knows_samples(b) ||
         (of_a.first_sample == of_b.first_sample && of_a.num_samples == of_b.num_samples);
}

}  // namespace

// `failure` is the second of its kind with the same samples. Leaves these samples out and returns
// "", or returns why the job must end.
std::string RestartPolicy::leave_out(JobFailure& failure) const {
  const std::string twice =
      fmt::format("it has failed twice in the same way after step {}", failure.furthest_step);
  const std::string samples = samples_text(failure.evidence);
  if (samples.empty()) return twice;
  if (!skips_bad_batches_) {
    return fmt::format("{}, with the {}; run.skip_bad_batches = true would leave them out", twice,
                       samples);
  }
  const auto left_out = std::count_if(failures_.begin(), failures_.end(),
                                      [](const JobFailure& one) { return one.is_left_out; });
  if (left_out >= kMostLeftOutBatches) {
    return fmt::format("{}, with the {}, and {} batches were left out before", twice, samples,
                       left_out);
  }
  failure.is_left_out = true;
  return "";
}

std::string RestartPolicy::reason(JobFailure& failure) const {
  if (max_restarts_ == 0) return "--max-restarts is 0";
  const bool may_be_the_data = failure.exit_code == kDamagedExitCode && knows_samples(failure);
  const bool is_incurable = failure.exit_code >= 2 && failure.exit_code <= 4;
  if (is_incurable && !(may_be_the_data && skips_bad_batches_)) {
    return may_be_the_data ? fmt::format(
                                 "a new start cannot cure this; it came with the {}, and "
                                 "run.skip_bad_batches = true would leave them out",
                                 samples_text(failure.evidence))
                           : "a new start cannot cure this";
  }
  if (failure.furthest_step == 0) return "no step was done before it";
  int without_progress = 1;
  for (auto it = failures_.rbegin(); it != failures_.rend(); ++it) {
    const int64_t progress = failure.furthest_step - it->furthest_step;
    if (progress > kSameSteps) break;
    const bool is_again = is_own(failure) && is_same(*it, failure);
    if (it->is_left_out) {
      if (!is_again || progress > 0) break;
      return fmt::format(
          "it has failed after step {} in the same way with other samples, so those that were left "
          "out are not the cause",
          failure.furthest_step);
    }
    without_progress += int(progress == 0);
    if (is_again && may_have_same_samples(*it, failure)) {
      const std::string why = leave_out(failure);
      if (!why.empty()) return why;
      break;
    }
  }
  if (without_progress >= kMostWithoutProgress) {
    return fmt::format("{} failures have followed each other without a new step", without_progress);
  }
  const auto in_window = std::count_if(
      failures_.begin(), failures_.end(),
      [&](const JobFailure& other) { return failure.time_s - other.time_s < kWindowS; });
  if (in_window >= max_restarts_) {
    return fmt::format("--max-restarts = {} restarts were made within an hour", max_restarts_);
  }
  return "";
}

std::string RestartPolicy::why_end(JobFailure failure) {
  std::string why = reason(failure);
  if (!why.empty()) failure.is_left_out = false;
  failures_.push_back(std::move(failure));
  return why;
}

}  // namespace trireme
