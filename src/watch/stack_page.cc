#include "watch/stack_page.h"

#include <dirent.h>
#include <execinfo.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>

namespace trireme {
namespace {

constexpr int kAskSignal = SIGUSR2;
constexpr int kCrashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

// It is global, because a signal handler can reach nothing else.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<StackPage*> g_page{nullptr};

const void* place_of(const void* context) {
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  return reinterpret_cast<const void*>(registers[REG_RIP]);
}

// 0 if the place is not among the frames.
int index_of(const void* place, void* const* frames, int count) {
  for (int i = 0; i < count; ++i) {
    if (frames[i] == place) return i;
  }
  return 0;
}

// Async-signal-safe: backtrace() has loaded its library before, and finds the tables of the code
// without a lock (_dl_find_object).
void write_stack(int signal, const void* context) {
  StackPage* const page = g_page.load(std::memory_order_acquire);
  if (page == nullptr) return;
  const uint32_t index = page->num_taken.fetch_add(1, std::memory_order_relaxed);
  if (index >= StackPage::kMostThreads) return;
  StackPage::Slot& slot = page->slots[index];
  slot.thread.store(int32_t(::syscall(SYS_gettid)), std::memory_order_relaxed);
  slot.signal.store(signal, std::memory_order_relaxed);
  void* frames[StackPage::kMostFrames];
  const int count = ::backtrace(frames, StackPage::kMostFrames);
  // The frames of the handler come before the place at which the thread was interrupted.
  const int first = index_of(place_of(context), frames, count);
  for (int i = first; i < count; ++i) {
    slot.frames[size_t(i - first)].store(reinterpret_cast<uint64_t>(frames[i]),
                                         std::memory_order_relaxed);
  }
  slot.num_frames.store(count - first, std::memory_order_release);
}

void on_ask(int signal, siginfo_t*, void* context) {
  const int error = errno;
  write_stack(signal, context);
  errno = error;
}

// The handler is removed before it is called (SA_RESETHAND), so the instruction that has failed
// ends the process with the same signal. If it was sent by a process or by abort(), no instruction
// fails again, so it is sent once more.
void on_crash(int signal, siginfo_t* info, void* context) {
  write_stack(signal, context);
  if (info->si_code <= 0) ::raise(signal);
}

std::vector<int> threads_of(int pid) {
  std::vector<int> threads;
  DIR* const folder = ::opendir(("/proc/" + std::to_string(pid) + "/task").c_str());
  if (folder == nullptr) return threads;
  while (const dirent* entry = ::readdir(folder)) {
    const int thread = std::atoi(entry->d_name);
    if (thread > 0) threads.push_back(thread);
  }
  ::closedir(folder);
  return threads;
}

}  // namespace

void install_stack_handlers(StackPage& page) {
  void* warm[1];
  (void)::backtrace(warm, 1);  // loads the library that unwinds
  g_page.store(&page, std::memory_order_release);
  struct sigaction action {};
  sigemptyset(&action.sa_mask);
  action.sa_sigaction = on_ask;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  ::sigaction(kAskSignal, &action, nullptr);
  if (!kIsSanitized) {
    action.sa_sigaction = on_crash;
    action.sa_flags = int(SA_RESETHAND) | SA_SIGINFO;
    for (const int signal : kCrashes) ::sigaction(signal, &action, nullptr);
  }
  page.is_ready.store(1, std::memory_order_release);
}

int ask_for_stacks(int pid, StackPage& page) {
  if (page.is_ready.load(std::memory_order_acquire) == 0) return 0;
  int asked = 0;
  for (const int thread : threads_of(pid)) {
    if (asked == StackPage::kMostThreads) break;
    asked += ::syscall(SYS_tgkill, pid, thread, kAskSignal) == 0 ? 1 : 0;
  }
  return asked;
}

std::vector<ThreadStack> stacks_in(const StackPage& page) {
  std::vector<ThreadStack> stacks;
  const uint32_t taken = page.num_taken.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < std::min<uint32_t>(taken, StackPage::kMostThreads); ++i) {
    const StackPage::Slot& slot = page.slots[i];
    const int count = slot.num_frames.load(std::memory_order_acquire);
    if (count <= 0 || count > StackPage::kMostFrames) continue;
    ThreadStack stack{.thread = slot.thread.load(std::memory_order_relaxed),
                      .signal = slot.signal.load(std::memory_order_relaxed)};
    stack.is_crash = stack.signal != kAskSignal;
    for (int frame = 0; frame < count; ++frame) {
      stack.frames.push_back(slot.frames[size_t(frame)].load(std::memory_order_relaxed));
    }
    stacks.push_back(std::move(stack));
  }
  return stacks;
}

}  // namespace trireme
