#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

// Where the threads of a rank are, as addresses of code. The rank writes them in a signal handler,
// into memory that its agent reads. All bytes are zero at first.
struct StackPage {
  static constexpr int kMostThreads = 64;
  static constexpr int kMostFrames = 40;
  struct Slot {
    std::atomic<int32_t> thread;      // 0: unused
    std::atomic<int32_t> signal;      // that has asked for it, or has ended the process
    std::atomic<int32_t> num_frames;  // written last; 0: not complete
    int32_t reserved;
    std::array<std::atomic<uint64_t>, kMostFrames> frames;  // the innermost one first
  };
  std::atomic<uint32_t> is_ready;  // 1: the rank has a handler, so the signal does not end it
  std::atomic<uint32_t> num_taken;
  std::array<Slot, kMostThreads> slots;
};

// Installs the handlers of this process, which write into `page`: one for the signal that asks
// every thread for its stack, and, unless a sanitizer has its own, those for crashes, which pass
// the signal on. The page must outlive the process.
void install_stack_handlers(StackPage& page);

// Asks all threads of another process for their stacks. Returns how many were asked.
int ask_for_stacks(int pid, StackPage& page);

// The stack of one thread, as it was written.
struct ThreadStack {
  int thread = 0;
  int signal = 0;
  bool is_crash = false;
  std::vector<uint64_t> frames;
};
// The stacks that are complete.
std::vector<ThreadStack> stacks_in(const StackPage& page);

}  // namespace trireme
