#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "comm/execution.h"
#include "comm/group.h"
#include "comm/operation.h"
#include "comm/shared_board.h"
#include "comm/transport.h"
#include "device/buffer.h"

namespace trireme {

// Turns the calls of a group into operations and drives them. Group is what callers see of it.
class GroupDriver {
 public:
  GroupDriver(RankContext& context, const Group& group);
  GroupDriver(const GroupDriver&) = delete;
  GroupDriver& operator=(const GroupDriver&) = delete;

  // Calls of Group. A CallHook may leave them out or repeat them.
  void run(const CollectiveArgs& args, const CallSite& site);
  Work start(const CollectiveArgs& args, const CallSite& site);
  void run_direct(Collective collective, TensorRef x, int peer, int tag, const CallSite& site);
  Work start_direct(Collective collective, TensorRef x, int peer, int tag, const CallSite& site);
  // Makes the call once, whatever the hook says.
  void run_once(const CollectiveArgs& args, const CallSite& site);
  void reserve(const CollectiveArgs& args);

  // For benchmarks and tests.
  // What Auto, or Canonical, stands for in this call.
  Algorithm resolve(const CollectiveArgs& args);
  // Rounds of one call; Shared has one meeting, or two where ranks use each other's buffers.
  int rounds(const CollectiveArgs& args);
  // Payload of one call, as `traffic` will count it.
  Traffic predict(const CollectiveArgs& args);
  // Seconds of each of `repeat` calls of the backend's own collective, for comparison.
  std::vector<double> time_native(CollectiveArgs args, int repeat,
                                  CallSite site = CallSite::current());

  // For Operation, CommThread and Work.
  std::span<const int> members() const { return group_.members(); }
  void count_pending(const Operation& operation, int change);
  bool is_next(const Operation& operation, uint64_t pass);
  void begin(Operation& operation);
  void complete(Operation& operation);
  void fail(const std::string& what);
  SharedBoard& board() { return *board_; }
  // The calling thread has waited.
  void count_waited(int64_t ns);

  bool has_board() const { return board_.has_value(); }
  int64_t scratch_bytes() const { return scratch_.bytes(); }
  Traffic traffic(Collective collective) const;
  Traffic traffic() const;
  int64_t waited_ns() const { return waited_ns_.load(std::memory_order_relaxed); }

 private:
  struct PlanKey {
    uint64_t kinds, root_and_counts;
    int64_t count;
    bool operator==(const PlanKey&) const = default;
  };
  struct PlanKeyHash {
    size_t operator()(const PlanKey& key) const;
  };
  struct Entry {
    Algorithm algorithm;
    CommPlan plan;  // of message algorithms
  };

  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }
  const std::string& name() const { return group_.name(); }
  int64_t full_count(const CollectiveArgs& args) const;
  void check_args(const CollectiveArgs& args, int64_t count) const;
  const Entry& entry_of(const CollectiveArgs& args, int64_t count);
  // The plan of a message algorithm. Unequal counts may come from the data, and never again: they
  // are planned in `unequal`, which keeps its memory from call to call.
  const CommPlan& plan_of(const CollectiveArgs& args, int64_t count, CommPlan& unequal);
  void prepare(const CollectiveArgs& args, const CallSite& site, Operation& operation);
  void prepare_direct(Collective collective, TensorRef x, int peer, int tag, const CallSite& site,
                      Operation& operation);
  // How often the call is made: once, except in tests.
  int times(Collective collective, const CallSite& site) const;
  Work start_once(const CollectiveArgs& args, const CallSite& site);
  Work start_direct_once(Collective collective, TensorRef x, int peer, int tag,
                         const CallSite& site);
  void grow_scratch(int64_t bytes);
  bool caller_may_drive(const Operation& operation) const;
  void run_prepared(Operation& operation);

  RankContext& context_;
  const Group& group_;
  std::vector<int> node_of_;
  std::unique_ptr<Transport> transport_;
  std::optional<SharedBoard> board_;
  uint64_t sequence_ = 0;
  std::array<TrafficCounter, kNumCollectives> traffic_;
  std::unordered_map<PlanKey, Entry, PlanKeyHash> plans_;
  Buffer scratch_;
  Operation caller_operation_;
  std::atomic<int> pending_[2] = {0, 0};  // by Lane: on the communication thread
  std::atomic<int64_t> waited_ns_{0};
  uint64_t last_pass_ = 0;
  std::vector<Work> repeated_;  // tests only
};

}  // namespace trireme
