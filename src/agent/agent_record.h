#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/job_failure.h"
#include "agent/ranks_end.h"
#include "base/result.h"

namespace trireme {

// Has what an agent tells the process that has started it: the failures of the job so far, and its
// end. It lies in memory of its own, so it outlives an agent that is killed. Processes that fork()
// creates share it.
class AgentRecord {
 public:
  static Result<AgentRecord> make();
  AgentRecord(AgentRecord&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  AgentRecord& operator=(AgentRecord&&) = delete;
  ~AgentRecord();

  void add(const JobFailure& failure) const;
  void set_end(const Result<RanksEnd>& end) const;
  // All failures of the job in their order.
  std::vector<JobFailure> failures() const;
  // Returns nullopt if no agent has told the end. The end has no failures.
  std::optional<Result<RanksEnd>> end() const;

 private:
  explicit AgentRecord(int fd) : fd_(fd) {}
  void add_line(const std::string& line) const;
  std::vector<std::string> lines() const;

  int fd_;
};

}  // namespace trireme
