#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "comm/fabric.h"
#include "comm/shared_board.h"

namespace trireme {

// Memory of one process that the other processes of its host map. It is sparse: a page exists only
// after it is touched.
struct WindowLayout {
  static constexpr int kGroups = 32;  // groups with lower ids can use Algorithm::Shared
  static constexpr int64_t kStageBytes = int64_t{4} << 20;
  // The arena takes addresses, not memory. The thread sanitizer has only 1.5 TiB of addresses, and
  // several worlds of one test process would exceed them.
#if defined(__SANITIZE_THREAD__)
  static constexpr int64_t kArenaBytes = int64_t{1} << 30;
#else
  static constexpr int64_t kArenaBytes = int64_t{64} << 30;
#endif

  uint64_t nonce;       // proves that the right window was mapped
  FabricHeader header;  // all ranks use that of the host's first rank
  RankCell cell;
  SharedSlot slots[kGroups];
};

class SharedWindow {
 public:
  // Creates this process's window. Throws IoError if it gets no file or no addresses for it.
  SharedWindow();
  // Maps the window of another process of this host. Throws IoError if that is not allowed or the
  // process is not the expected one.
  SharedWindow(int pid, int fd, uint64_t nonce);
  ~SharedWindow();
  SharedWindow(const SharedWindow&) = delete;
  SharedWindow& operator=(const SharedWindow&) = delete;

  int fd() const { return fd_; }
  WindowLayout& layout() const { return *reinterpret_cast<WindowLayout*>(base_); }
  std::byte* base() const { return base_; }
  // Each group has its own stage, because calls of several groups may run at once. Pages are backed
  // when used.
  std::byte* stage(int group) const {
    return base_ + kStageBegin + group * WindowLayout::kStageBytes;
  }
  static int64_t bytes() { return kArenaBegin + WindowLayout::kArenaBytes; }

  // Allocates a page-aligned part of the arena. Returns null if there is no room.
  void* allocate(int64_t bytes);
  void release(void* data, int64_t bytes);

 private:
  static constexpr int64_t kPage = int64_t{2} << 20;
  static constexpr int64_t kStageBegin =
      (int64_t(sizeof(WindowLayout)) + kPage - 1) / kPage * kPage;
  static constexpr int64_t kArenaBegin =
      kStageBegin + WindowLayout::kGroups * WindowLayout::kStageBytes;

  void map();

  int fd_ = -1;
  std::byte* base_ = nullptr;
  std::mutex mutex_;
  std::map<int64_t, int64_t> free_;  // offset in the arena -> bytes
};

}  // namespace trireme
