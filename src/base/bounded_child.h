#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <string>

namespace trireme {

// The outcome of a function that ran in a child process. Tests of hostile input use it, because a
// crash, an endless loop or gigabytes of memory then end the child and not the test.
struct ChildOutcome {
  std::string output;      // return value of the function
  std::string failure;     // "", or how the child ended otherwise
  double seconds = 0.0;    // CPU time, which other work on the machine does not lengthen
  int64_t peak_bytes = 0;  // peak resident memory above that of an idle child
};

// Under sanitizers most of the memory belongs to them, and a parser takes up to twenty times as
// long. A deadline is CPU time; most crafted files take one second without sanitizers.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kMeasuresMemory = false;
inline constexpr double kParserDeadlineS = 60.0;
#else
inline constexpr bool kMeasuresMemory = true;
inline constexpr double kParserDeadlineS = 6.0;
#endif

// `function` returns a string. The child is killed after deadline_s.
template <typename Function>
ChildOutcome measured_child(Function&& function, unsigned deadline_s) {
  ChildOutcome outcome;
  int ends[2];
  if (::pipe(ends) != 0) {
    outcome.failure = "no pipe";
    return outcome;
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(deadline_s);
    std::string output;
    try {
      output = function();
    } catch (const std::exception& failure) {
      output = std::string("EXCEPTION ") + failure.what();
    }
    for (size_t at = 0; at < output.size();) {
      const ssize_t written = ::write(ends[1], output.data() + at, output.size() - at);
      if (written <= 0) break;
      at += static_cast<size_t>(written);
    }
    ::_exit(0);
  }
  ::close(ends[1]);
  char block[4096];
  for (ssize_t got; (got = ::read(ends[0], block, sizeof block)) > 0;) {
    outcome.output.append(block, static_cast<size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  struct rusage usage {};
  ::wait4(child, &status, 0, &usage);
  for (const timeval& part : {usage.ru_utime, usage.ru_stime}) {
    outcome.seconds += static_cast<double>(part.tv_sec) + 1e-6 * static_cast<double>(part.tv_usec);
  }
  outcome.peak_bytes = int64_t{usage.ru_maxrss} * 1024;
  if (WIFSIGNALED(status)) outcome.failure = "signal " + std::to_string(WTERMSIG(status));
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0) outcome.failure = "exit";
  if (outcome.output.starts_with("EXCEPTION ")) outcome.failure = outcome.output;
  return outcome;
}

template <typename Function>
ChildOutcome run_in_child(Function&& function, unsigned deadline_s = 120) {
  const ChildOutcome idle = measured_child([] { return std::string(); }, deadline_s);
  ChildOutcome outcome = measured_child(function, deadline_s);
  outcome.peak_bytes -= idle.peak_bytes;
  return outcome;
}

}  // namespace trireme
