#pragma once

namespace trireme {

// Asks the scheduler for short time slices for the calling thread, which should be one that mostly
// waits. With them the thread runs as soon as it is woken, even if another thread computes on its
// core. Without them it may wait for the end of the other thread's slice, for some milliseconds.
// Works with Linux 6.12 and later; has no effect on earlier versions.
void ask_for_short_turns();

}  // namespace trireme
