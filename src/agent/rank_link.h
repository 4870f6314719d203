#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/epoch_layout.h"
#include "agent/job_page.h"
#include "base/corruption_alarm.h"
#include "base/result.h"
#include "base/sample_range.h"
#include "watch/rank_pages.h"

namespace trireme {

// A message from a rank to its agent.
struct RankReport {
  enum class Kind : int32_t {
    Joined,   // it has joined the epoch; from now on a signal makes it save
    Waiting,  // another rank is lost; this one has ended the epoch and waits for the next one
    Failed,   // it ends because of `text`
    Corrupt,  // a check for silent corruption has ended the epoch: evidence_json()
    // The agent of the rank adds these to the reports of the rank.
    Hangs,     // the agent kills it because of `text`
    Evidence,  // what is known about its end: evidence_json()
    Slow,      // it computes longer than others, as `text` says
  };
  static constexpr Kind kLastKind = Kind::Slow;
  Kind kind = Kind::Joined;
  int32_t reserved = 0;
  uint64_t epoch = 0;
  char text[2048] = {};  // ends with 0
};

// The largest number of batches that a job leaves out (run.skip_bad_batches).
inline constexpr int kMostLeftOutBatches = 5;

// A message from an agent to a rank: its place in an epoch, and the failures before it. Every rank
// that is started gets one.
struct EpochOrder {
  uint64_t epoch = 0;
  std::array<char, 64> rendezvous = {};  // HOST:PORT at which the ranks meet; ends with 0
  int32_t rank = 0;
  int32_t size = 0;
  int32_t ranks_on_host = 0;         // of this rank
  int32_t num_failures = 0;          // of the job so far
  int32_t first_failure_number = 0;  // number of the first failure in `failures`, from 1
  int32_t is_first = 0;              // 1: the job begins with this epoch
  EpochLayout layout;                // of all ranks
  int64_t lost_step = 0;             // last step done before the failure
  int64_t lost_step_ns = 0;          // when it was done
  int64_t detected_ns = 0;           // when the agent noticed the failure
  int64_t classified_ns = 0;         // when it knew the cause, and all other ranks waited
  int64_t made_ns = 0;               // when it made the epoch
  // Checkpoints of later steps may hold the results of a wrong rank, or make each run fail that
  // resumes from them; -1: there is no such step, or nobody knows it.
  int64_t clean_step = -1;
  int32_t num_left_out = 0;  // entries of left_out
  // 1: the ranks end if there is no checkpoint of `clean_step` or an earlier step. 0: they resume
  // from the newest one then.
  int32_t must_go_back = 0;
  std::array<SampleRange, kMostLeftOutBatches> left_out = {};  // all that the job leaves out so far
  char failures[6144] = {};  // lines that metrics.jsonl may not have yet; ends with 0
};

// The descriptors that a rank inherits from its agent.
struct LinkDescriptors {
  int socket = -1;
  int page = -1;
  int terminal = -1;  // standard error of the agent, for rank 0
  int pages = -1;     // RankPages of this rank; -1: it is not watched
};

// Names the descriptors in the environment of a rank.
inline constexpr const char* kLinkVariable = "TRIREME_LINK";
std::string link_text(const LinkDescriptors& link);
// Returns nullopt for "".
Result<std::optional<LinkDescriptors>> link_in(const std::string& text);

// The rank's end of the connection to its agent.
class RankLink {
 public:
  // Also installs the signal handlers by which this process shows its stacks (stack_page.h).
  static Result<RankLink> open(const LinkDescriptors& descriptors);
  JobPage& page() const { return *page_; }
  // In which this rank shows where it is.
  ProgressPage& progress() const { return pages_->progress; }
  // In which it shows what the actions of its program are called.
  ProgramPage& program() const { return pages_->program; }

  void tell_joined(uint64_t epoch) const { tell(RankReport::Kind::Joined, epoch, ""); }
  void tell_failed(uint64_t epoch, const std::string& why) const {
    tell(RankReport::Kind::Failed, epoch, why);
  }
  // Names the ranks and hosts that have computed or held wrong numbers. Every rank reports the same
  // before it fails.
  void tell_corrupt(uint64_t epoch, const CorruptionAlarm& alarm) const;
  // Reports that the epoch is over, and waits for the place in a later one. Returns nullopt if the
  // agent wants this rank to end, or has said nothing for an hour.
  std::optional<EpochOrder> next_epoch(uint64_t epoch, const std::string& why) const;
  // Waits for the order of epoch `least_epoch` or a later one. Returns nullopt if the agent wants
  // this rank to end, or has said nothing for an hour. A rank calls it first.
  std::optional<EpochOrder> receive_order(uint64_t least_epoch) const;

 private:
  RankLink(const LinkDescriptors& own, SharedJobPage page, SharedRankPages pages)
      : own_(own), page_(std::move(page)), pages_(std::move(pages)) {}
  void tell(RankReport::Kind kind, uint64_t epoch, const std::string& text) const;

  LinkDescriptors own_;
  SharedJobPage page_;
  SharedRankPages pages_;
};

}  // namespace trireme
