#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/backend.h"
#include "comm/fabric.h"
#include "comm/group_shape.h"
#include "comm/process_watch.h"
#include "comm/shared_board.h"
#include "comm/shared_window.h"

namespace trireme {

// The place at which the other processes of a host find the window of a rank.
struct WindowAddress {
  int32_t rank;
  int32_t pid;
  int32_t fd;
  int32_t reserved;
  uint64_t nonce;
};

// The windows of all ranks of one host, seen from one of their processes, and what is built on
// them: the fabric, the views of Algorithm::Shared, and the watch over the processes.
class HostWindows {
 public:
  HostWindows(int rank, int size);
  ~HostWindows();
  HostWindows(const HostWindows&) = delete;
  HostWindows& operator=(const HostWindows&) = delete;

  WindowAddress address() const;
  // Maps the windows of the peers; the rank itself may be among them. Returns false, and maps none,
  // if the operating system does not allow it.
  bool map(std::span<const WindowAddress> peers);
  void unmap();

  // Returns null for a rank of another host.
  SharedWindow* window(int rank);
  SharedWindow& own() { return own_; }
  std::vector<int> remote_ranks() const;

  // Allocates a part of the own window. A process that is alone on its host gets memory of its own,
  // because Linux gives this huge pages more willingly, and so does one whose window is full.
  std::unique_ptr<SharedMemory> allocate(int64_t bytes);

  // Makes the fabric. Its header lies in the window of rank `first` of this host. Ranks of other
  // hosts have cells here that their news update (HostNews).
  std::unique_ptr<Fabric> make_fabric(int first);
  // Returns nullopt if a member of the group is on another host.
  std::optional<SharedView> view(const GroupShape& shape, const FaultHook& hook);
  // Watches the processes whose windows are mapped. It must end before the fabric and this object.
  std::unique_ptr<ProcessWatch> watch_processes(Fabric& fabric);

 private:
  int rank_;
  SharedWindow own_;
  std::vector<std::unique_ptr<SharedWindow>> mapped_;  // [world rank]; null: this one or elsewhere
  std::vector<std::unique_ptr<RankCell>> remote_cells_;  // [world rank]; null: on this host
  std::vector<int> pid_fds_;                             // [world rank]; -1: none
};

}  // namespace trireme
