#include "agent/restart_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "agent/rank_exit_code.h"
#include "agent/rank_link.h"
#include "failures/evidence_json.h"
#include "watch/progress_page.h"

namespace trireme {
namespace {

constexpr int kMostWithoutProgress = 3;
// Rank 0 reports a step only at its end, so the step of a failure may be off by one.
constexpr int64_t kSameSteps = 1;
constexpr double kWindowS = 3600.0;

// True if ranks waited in vain for one that had not died. If it dies later, that is a second
// failure with the same cause.
bool has_no_cause(const JobFailure& failure) { return failure.kind == "lost"; }

// True if the rank failed by its own work. False if it was killed or stopped from outside.
bool is_own(const JobFailure& failure) {
  return failure.kind == "crashed" || failure.kind == "failed";
}

// True if the numbers of several steps in a row were not finite. Each step has other samples, so
// these are not the cause.
bool blames_state(const JobFailure& failure) {
  return is_own(failure) && failure.evidence.nonfinite_steps > 1;
}

// Returns the last step before the failure whose numbers were finite.
int64_t good_step(const JobFailure& failure) {
  return failure.furthest_step - (blames_state(failure) ? failure.evidence.nonfinite_steps : 0);
}

// Returns how many new steps were done between two failures; 0 or less: none.
int64_t progress_since(const JobFailure& before, const JobFailure& failure) {
  return good_step(failure) - before.furthest_step;
}

bool is_same(const JobFailure& a, const JobFailure& b) {
  if (blames_state(a) && blames_state(b)) return true;  // only its texts have other steps
  return is_own(b) && a.kind == b.kind && a.what == b.what && a.cause == b.cause;
}

bool knows_samples(const JobFailure& failure) { return failure.evidence.num_samples > 0; }

// True if both failures came with the same samples, or if the samples of one are unknown.
bool may_have_same_samples(const JobFailure& a, const JobFailure& b) {
  const FailureEvidence &of_a = a.evidence, &of_b = b.evidence;
  return !knows_samples(a) || !knows_samples(b) ||
         (of_a.first_sample == of_b.first_sample && of_a.num_samples == of_b.num_samples);
}

// True if ranks have refused what they were loading. The next ones check all checkpoints again.
bool is_refused_while_loading(const JobFailure& failure) {
  return failure.exit_code == kDamagedExitCode &&
         failure.evidence.phase == name_of(RankPhase::Load);
}

// True if the ranks have found a checkpoint that is whole, but its state is refused. Its step is
// not known if the first rank was lost, too, before it could tell it.
bool is_state_refused(const JobFailure& failure) {
  return is_refused_while_loading(failure) && failure.resumed_step >= 0;
}

}  // namespace

std::vector<SampleRange> RestartPolicy::left_out() const {
  std::vector<const JobFailure*> left_out;
  for (const JobFailure& failure : failures_) {
    if (failure.is_left_out) left_out.push_back(&failure);
    if (failure.goes_back_to < 0) continue;
    std::erase_if(left_out, [&](const JobFailure* one) {
      return progress_since(*one, failure) <= kSameSteps;
    });
  }
  std::vector<SampleRange> ranges;
  for (const JobFailure* one : left_out) {
    ranges.push_back({one->evidence.first_sample, one->evidence.num_samples});
  }
  return ranges;
}

// The failures since the last new step, the newest one first.
std::vector<const JobFailure*> RestartPolicy::without_progress(const JobFailure& failure) const {
  std::vector<const JobFailure*> found;
  for (auto it = failures_.rbegin(); it != failures_.rend(); ++it) {
    if (progress_since(*it, failure) > kSameSteps) break;
    found.push_back(&*it);
  }
  return found;
}

// `failure` is the second of its kind with the same samples. Leaves these samples out and returns
// "", or returns why the job must end.
std::string RestartPolicy::leave_out(JobFailure& failure, const std::string& twice) const {
  const std::string samples = samples_text(failure.evidence);
  if (!skips_bad_batches_) {
    return fmt::format("{}, with the {}; run.skip_bad_batches = true would leave them out", twice,
                       samples);
  }
  const size_t num_left_out = left_out().size();
  if (num_left_out >= size_t(kMostLeftOutBatches)) {
    return fmt::format("{}, with the {}, and {} batches were left out before", twice, samples,
                       num_left_out);
  }
  failure.is_left_out = true;
  return "";
}

// The failure has come back after each restart, and the data is not the cause. So the state of the
// checkpoint may be. Makes the job go back to an older one and returns "", or returns why it must
// end. It goes back once; then it must get farther than before.
std::string RestartPolicy::go_back(JobFailure& failure, const std::string& why) const {
  const std::vector<const JobFailure*> before = without_progress(failure);
  const bool has_gone_back = std::any_of(
      before.begin(), before.end(), [](const JobFailure* one) { return one->goes_back_to >= 0; });
  if (has_gone_back) {
    return why + ", although the job has gone back to an older checkpoint before";
  }
  if (failure.resumed_step < 0) return why;
  // The first failure may have ended an epoch that began long before the state was bad.
  int64_t newest = failure.resumed_step - 1;
  for (size_t i = 0; i + 1 < before.size(); ++i) {
    if (before[i]->resumed_step >= 0) newest = std::min(newest, before[i]->resumed_step - 1);
  }
  if (blames_state(failure)) newest = std::min(newest, good_step(failure) - 1);
  if (failure.older_step < 0 || newest < 0) {
    return fmt::format("{}, and no checkpoint is older than that of step {}", why,
                       failure.resumed_step);
  }
  failure.goes_back_to = newest;
  failure.why_back = why;
  return "";
}

std::string RestartPolicy::reason_of_repetition(JobFailure& failure) const {
  const std::string after = fmt::format("after step {}", failure.furthest_step);
  int num_without_step = 1;
  for (const JobFailure* one : without_progress(failure)) {
    const bool is_again = is_own(failure) && is_same(*one, failure);
    if (one->goes_back_to >= 0) {
      if (!is_again) break;
      return go_back(failure, fmt::format("it has failed again in the same way {}", after));
    }
    const bool is_at_the_same_step = progress_since(*one, failure) <= 0;
    if (one->is_left_out) {
      if (!is_again || !is_at_the_same_step) break;
      return go_back(
          failure, fmt::format("it has failed {} in the same way with other samples, so those that "
                               "were left out are not the cause",
                               after));
    }
    // Those without a cause are counted apart, because another failure may have caused them.
    const bool counts = is_at_the_same_step && has_no_cause(*one) == has_no_cause(failure);
    num_without_step += int(counts);
    if (is_again && blames_state(failure)) {
      return go_back(failure, fmt::format("it has failed twice in the same way {}, and no gradient "
                                          "was finite with {} batches in a row",
                                          after, failure.evidence.nonfinite_steps));
    }
    if (is_again && may_have_same_samples(*one, failure)) {
      const std::string twice = fmt::format("it has failed twice in the same way {}", after);
      return knows_samples(failure) ? leave_out(failure, twice) : go_back(failure, twice);
    }
  }
  if (num_without_step < kMostWithoutProgress) return "";
  return go_back(failure, fmt::format("{} failures have followed each other without a new step",
                                      num_without_step));
}

std::string RestartPolicy::reason(JobFailure& failure) const {
  if (max_restarts_ == 0) return "--max-restarts is 0";
  const bool may_be_the_data = failure.exit_code == kDamagedExitCode && knows_samples(failure);
  const bool is_incurable =
      failure.exit_code >= 2 && failure.exit_code <= 4 && !is_refused_while_loading(failure);
  if (is_incurable && !(may_be_the_data && skips_bad_batches_)) {
    return may_be_the_data ? fmt::format(
                                 "a new start cannot cure this; it came with the {}, and "
                                 "run.skip_bad_batches = true would leave them out",
                                 samples_text(failure.evidence))
                           : "a new start cannot cure this";
  }
  if (failure.furthest_step == 0) return "no step was done before it";
  std::string why = is_state_refused(failure)
                        ? go_back(failure, fmt::format("the checkpoint of step {} cannot be loaded",
                                                       failure.resumed_step))
                        : reason_of_repetition(failure);
  if (!why.empty()) return why;
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
  if (!why.empty()) {
    failure.is_left_out = false;
    failure.goes_back_to = -1;
    failure.why_back.clear();
  }
  failures_.push_back(std::move(failure));
  return why;
}

}  // namespace trireme
