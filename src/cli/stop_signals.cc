#include "cli/stop_signals.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string_view>

#include "cli/exit_code.h"

namespace trireme {
namespace {

// Number of signals that asked the run to stop. It is global, because a signal handler can reach
// nothing else.
std::atomic<int> stop_signals{0};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

// None in every process but the one that talks to the user, of all that run ranks.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<SignalWords> told{SignalWords::None};

// A signal handler may call nothing that allocates or locks.
void tell_in_handler(std::string_view of_train, std::string_view of_sweep) {
  const SignalWords words = told.load(std::memory_order_relaxed);
  if (words == SignalWords::None) return;
  const std::string_view text = words == SignalWords::OfTrain ? of_train : of_sweep;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

// The first signal lets the step finish and saves; the second ends the process at once.
void handle_stop_signal(int) {
  const int cause = errno;
  if (stop_signals.fetch_add(1) > 0) {
    tell_in_handler(
        "\nerror: trireme train: a second signal has ended the run at once: nothing was saved "
        "since its last checkpoint\n",
        "\nerror: trireme sweep: a second signal has ended the sweep at once: nothing was saved "
        "since the last checkpoint of its trial\n");
    ::_exit(kFailedExitCode);
  }
  tell_in_handler(
      "\nstopping: the run finishes its step and saves; a second signal ends it at once, without "
      "saving\n",
      "\nstopping: the trial finishes its step and saves; a second signal ends the sweep at once, "
      "without saving\n");
  errno = cause;
}

}  // namespace

const std::atomic<int>& catch_stop_signals(SignalWords words) {
  stop_signals = 0;
  told = words;
  struct sigaction action {};
  action.sa_handler = handle_stop_signal;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGUSR1, &action, nullptr);  // launchers forward it, and do not kill the job after it
  return stop_signals;
}

}  // namespace trireme
