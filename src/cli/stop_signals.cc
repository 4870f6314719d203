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

// The words of this process. Only the one that talks to the user has any.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<SignalWords> told{SignalWords::None};

constexpr std::string_view kStopsRun =
    "\nstopping: the run finishes its step and saves; a second signal ends it at once, without "
    "saving\n";

// What a process says after the first signal, and after the second one.
struct SignalTexts {
  std::string_view stops, ends;
};

constexpr SignalTexts texts_of(SignalWords words) {
  switch (words) {
    case SignalWords::None:
      break;
    case SignalWords::OfTrain:
      return {kStopsRun,
              "\nerror: trireme train: a second signal has ended the run at once: nothing was "
              "saved since its last checkpoint\n"};
    case SignalWords::OfLaunch:
      return {kStopsRun,
              "\nerror: trireme launch: a second signal has ended the run at once: nothing was "
              "saved since its last checkpoint\n"};
    case SignalWords::OfSweep:
      return {
          "\nstopping: the trial finishes its step and saves; a second signal ends the sweep "
          "at once, without saving\n",
          "\nerror: trireme sweep: a second signal has ended the sweep at once: nothing was "
          "saved since the last checkpoint of its trial\n"};
  }
  return {};
}

// A signal handler may call nothing that allocates or locks.
void tell_in_handler(std::string_view text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

// The first signal lets the step finish and saves; the second ends the process at once.
void handle_stop_signal(int) {
  const int cause = errno;
  const SignalTexts texts = texts_of(told.load(std::memory_order_relaxed));
  if (stop_signals.fetch_add(1) > 0) {
    tell_in_handler(texts.ends);
    ::_exit(kFailedExitCode);
  }
  tell_in_handler(texts.stops);
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
