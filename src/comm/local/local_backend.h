#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/backend.h"
#include "comm/local/local_transport.h"
#include "device/buffer.h"

namespace trireme {

// The state that ranks of one process share: the fabric, and for each group its channels and slots
// of shared calls.
class LocalHost {
 public:
  LocalHost(int size, const WorldOptions& options);

  struct GroupMemory {
    std::shared_ptr<ChannelTable> channels;
    std::vector<std::unique_ptr<SharedSlot>> slots;
  };
  // Returns the same object to every member of the group.
  GroupMemory& memory_of(const GroupShape& shape);

  Fabric& fabric() { return fabric_; }
  const WorldOptions& options() const { return options_; }
  const std::vector<int>& node_of() const { return node_of_; }

 private:
  WorldOptions options_;
  std::unique_ptr<FabricHeader> header_;
  std::vector<std::unique_ptr<RankCell>> cells_;
  Fabric fabric_;
  std::vector<int> node_of_;
  std::mutex mutex_;
  std::map<std::pair<int, int>, std::unique_ptr<GroupMemory>> groups_;  // key: (id, first member)
};

class LocalBackend : public Backend {
 public:
  // `shown` replaces the rank's own cell as the place of its progress, unless it is null.
  LocalBackend(LocalHost& host, int rank, Progress* shown = nullptr);
  int rank() const override { return rank_; }
  Fabric& fabric() override { return host_.fabric(); }
  const std::vector<int>& node_of() const override { return host_.node_of(); }
  int spins() const override { return spins_; }
  Progress& progress() override { return shown_ ? *shown_ : Backend::progress(); }
  std::unique_ptr<Transport> connect(const GroupShape& shape) override;
  std::optional<SharedView> view(const GroupShape& shape) override;
  std::unique_ptr<SharedMemory> allocate_shared(int64_t bytes) override;
  bool caller_drives() const override { return true; }
  bool has_core_for_thread() const override { return has_core_for_thread_; }

 private:
  LocalHost& host_;
  int rank_;
  int spins_;
  bool has_core_for_thread_;
  Progress* shown_;
};

}  // namespace trireme
