#pragma once

#include <atomic>

namespace trireme {

// Whose words a process uses on standard error when a signal comes. None: it says nothing.
enum class SignalWords { None, OfTrain, OfLaunch, OfSweep };

// Counts SIGINT, SIGTERM and SIGUSR1 from now on. The first one asks the run to finish its step and
// to save; the second one ends the process at once. Returns their number, which is 0 at first.
const std::atomic<int>& catch_stop_signals(SignalWords words);

}  // namespace trireme
