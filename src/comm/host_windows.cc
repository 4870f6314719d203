#include "comm/host_windows.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace trireme {
namespace {

class WindowMemory : public SharedMemory {
 public:
  WindowMemory(SharedWindow& window, void* data, int64_t bytes) : window_(window) {
    data_ = data;
    bytes_ = bytes;
  }
  ~WindowMemory() override { window_.release(data_, bytes_); }

 private:
  SharedWindow& window_;
};

}  // namespace

HostWindows::HostWindows(int rank, int size)
    : rank_(rank), mapped_(size_t(size)), remote_cells_(size_t(size)), pid_fds_(size_t(size), -1) {
  own_.layout().cell.pid.store(int32_t(getpid()));
}

HostWindows::~HostWindows() { unmap(); }

WindowAddress HostWindows::address() const {
  return {rank_, int32_t(getpid()), own_.fd(), 0, own_.layout().nonce};
}

bool HostWindows::map(std::span<const WindowAddress> peers) {
  try {
    for (const WindowAddress& peer : peers) {
      if (peer.rank == rank_) continue;
      mapped_[size_t(peer.rank)] = std::make_unique<SharedWindow>(peer.pid, peer.fd, peer.nonce);
      pid_fds_[size_t(peer.rank)] = int(syscall(SYS_pidfd_open, peer.pid, 0));
    }
  } catch (const IoError&) {
    unmap();
    return false;
  }
  return true;
}

void HostWindows::unmap() {
  for (std::unique_ptr<SharedWindow>& window : mapped_) window.reset();
  for (int& fd : pid_fds_) {
    if (fd >= 0) close(fd);
    fd = -1;
  }
}

SharedWindow* HostWindows::window(int rank) {
  return rank == rank_ ? &own_ : mapped_[size_t(rank)].get();
}

std::vector<int> HostWindows::remote_ranks() const {
  std::vector<int> remote;
  for (int r = 0; r < int(mapped_.size()); ++r) {
    if (r != rank_ && !mapped_[size_t(r)]) remote.push_back(r);
  }
  return remote;
}

std::unique_ptr<SharedMemory> HostWindows::allocate(int64_t bytes) {
  const bool is_alone = std::none_of(mapped_.begin(), mapped_.end(),
                                     [](const auto& window) { return window != nullptr; });
  void* const data = is_alone ? nullptr : own_.allocate(bytes);
  if (data == nullptr) return std::make_unique<ProcessMemory>(bytes);
  return std::make_unique<WindowMemory>(own_, data, bytes);
}

std::unique_ptr<Fabric> HostWindows::make_fabric(int first) {
  std::vector<RankCell*> cells(mapped_.size());
  for (int r = 0; r < int(cells.size()); ++r) {
    if (SharedWindow* mapped = window(r)) {
      cells[size_t(r)] = &mapped->layout().cell;
      continue;
    }
    remote_cells_[size_t(r)] = std::make_unique<RankCell>();
    cells[size_t(r)] = remote_cells_[size_t(r)].get();
    // The counts of other hosts are unknown, so they must never show that a rank has not arrived.
    for (auto& issued : cells[size_t(r)]->issued) issued = std::numeric_limits<uint64_t>::max();
  }
  return std::make_unique<Fabric>(window(first)->layout().header, std::move(cells));
}

std::optional<SharedView> HostWindows::view(const GroupShape& shape, const FaultHook& hook) {
  if (shape.id >= WindowLayout::kGroups) return std::nullopt;
  SharedView view;
  for (int member : shape.members) {
    SharedWindow* const mapped = window(member);
    if (mapped == nullptr) return std::nullopt;
    view.slots.push_back(&mapped->layout().slots[shape.id]);
    view.bases.push_back(mapped->base());
    view.stages.push_back(mapped->stage(shape.id));
  }
  view.window = own_.base();
  view.window_bytes = SharedWindow::bytes();
  view.stage_bytes = WindowLayout::kStageBytes;
  view.hook = hook;
  return view;
}

std::unique_ptr<ProcessWatch> HostWindows::watch_processes(Fabric& fabric) {
  return std::make_unique<ProcessWatch>(fabric, pid_fds_);
}

}  // namespace trireme
