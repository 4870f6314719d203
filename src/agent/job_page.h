#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/result.h"

namespace trireme {

// Shared memory of a job on one host. The agent makes it and its ranks map it, so it outlives every
// rank. Only rank 0 of the running epoch writes it, except for the last fields, which the agent
// writes. The agent and the ranks of later epochs read it. If nothing has happened yet, all bytes
// are zero.
// Times are those of the monotonic clock, which all processes of a host share.
struct JobPage {
  std::atomic<int64_t> step;            // last step done
  std::atomic<int64_t> step_ns;         // when it was done, or when its state was loaded
  std::atomic<int64_t> saved_step;      // of the newest checkpoint that this job has written
  std::atomic<int64_t> memory_step;     // of the newest one in memory, if memory_redone is above 0
  std::atomic<int64_t> memory_redone;   // steps that a loss repeats at worst with those in memory
  std::atomic<int64_t> furthest_step;   // greatest `step` so far
  std::atomic<int64_t> furthest_ns;     // when it was done, or when the next step could begin
  std::atomic<int64_t> begun_ns;        // when training was ready for the first time
  std::atomic<int64_t> job;             // a number that no other job has, set with begun_ns
  std::atomic<uint64_t> trained_epoch;  // the newest epoch that has done a step
  std::atomic<int64_t> first_step_ns;   // the end of its first step
  std::atomic<int64_t> told_failures;   // number of failures that are in metrics.jsonl
  std::atomic<int64_t> redone_steps;    // steps done twice, of the whole job
  std::atomic<int64_t> lost_ns;         // from furthest_ns until that step is done again; a sum
  // These times add up to that of the whole job on rank 0. Steps that were done again count only in
  // redone_ns.
  std::atomic<int64_t> compute_ns;
  std::atomic<int64_t> exposed_ns;  // communication that computation does not hide
  std::atomic<int64_t> bubble_ns;
  std::atomic<int64_t> straggler_ns;  // of the waits for communication, those for slower ranks
  std::atomic<int64_t> saving_ns;
  std::atomic<int64_t> redone_ns;
  std::atomic<int64_t> recoveries_from_memory;  // by the tier that was resumed
  std::atomic<int64_t> recoveries_from_disk;
  std::atomic<int64_t> recovery_ns;  // from the last step before each failure to the next step
  // The last epoch that has found its checkpoint, the step of this checkpoint, and that of the
  // newest older one; -1: none.
  std::atomic<uint64_t> resumed_epoch;
  std::atomic<int64_t> resumed_step;
  std::atomic<int64_t> older_step;
  std::atomic<int32_t> measured_bytes;  // 0: nothing was measured yet
  std::array<std::byte, 512> measured;  // a MeasuredMachine (session/rank_hardware.h)
  // If it is above the running epoch, the ranks save after their step and wait for that epoch.
  std::atomic<uint64_t> wanted_epoch;
  // Used by jobs on several hosts (RunRight). Ranks of earlier epochs than this one must wait for a
  // later one. The others may begin a step or publish a file until that time; 0: on one host.
  std::atomic<uint64_t> least_epoch;
  std::atomic<int64_t> may_run_until_ns;
  // 1 once rank 0 holds the folder of the run. Only this host knows it.
  std::atomic<int32_t> holds_folder;
};

// The values of a page that rank 0 writes, for the page of another host.
struct PageValues {
  std::array<int64_t, 26> numbers = {};
  int32_t measured_bytes = 0;
  int32_t reserved = 0;
  std::array<std::byte, 512> measured = {};
  bool operator==(const PageValues&) const = default;
};
// Both add `shift_ns` to all times, because every host has a monotonic clock of its own.
PageValues values_of(const JobPage& page, int64_t shift_ns);
void store(const PageValues& values, int64_t shift_ns, JobPage& page);
// True if the values are of a later moment of the job than those of the page.
bool is_further(const PageValues& values, const JobPage& page);

// A JobPage in memory of its own that other processes can map.
class SharedJobPage {
 public:
  static Result<SharedJobPage> make();
  // Maps the page of a descriptor, which stays open.
  static Result<SharedJobPage> map(int fd);
  SharedJobPage(SharedJobPage&& other) noexcept
      : page_(std::exchange(other.page_, nullptr)), fd_(std::exchange(other.fd_, -1)) {}
  SharedJobPage& operator=(SharedJobPage&&) = delete;
  ~SharedJobPage();

  JobPage& operator*() const { return *page_; }
  JobPage* operator->() const { return page_; }
  int fd() const { return fd_; }

 private:
  SharedJobPage(JobPage* page, int fd) : page_(page), fd_(fd) {}
  JobPage* page_;
  int fd_;  // -1: another object owns it
};

}  // namespace trireme
