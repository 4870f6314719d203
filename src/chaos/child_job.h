#pragma once

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace trireme {

// This program as a child process, such as `trireme launch ...`. It is killed with this object.
class ChildJob {
 public:
  // `words` come after the name of the program. What it prints goes to the file `log`. The child
  // has the signal mask `mask`.
  static Result<ChildJob> start(const std::vector<std::string>& words, const std::string& log,
                                const sigset_t& mask);
  ChildJob(ChildJob&& other) noexcept;
  ChildJob& operator=(ChildJob&&) = delete;
  ~ChildJob();

  bool has_ended();  // does not wait
  // Valid once it has ended. 128 + the number of the signal that has killed it.
  int exit_code() const { return *exit_code_; }
  void send(int signal) const;
  int pid() const { return pid_; }

 private:
  explicit ChildJob(int pid) : pid_(pid) {}
  int pid_;
  std::optional<int> exit_code_;
};

// Runs a command, waits for it at most 10 s, and says whether it ended with exit code 0. Its output
// is dropped.
bool succeeds(const std::vector<std::string>& words);

}  // namespace trireme
