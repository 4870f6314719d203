#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "comm/collective.h"
#include "comm/execution.h"
#include "comm/group_shape.h"
#include "comm/operation.h"
#include "comm/shared_board.h"
#include "comm/transport.h"
#include "comm/work.h"
#include "device/buffer.h"
#include "tensor/tensor.h"

namespace trireme {

struct RankContext;

struct Traffic {
  int64_t sent_bytes = 0;
  int64_t received_bytes = 0;
  int64_t sent_messages = 0;
  int64_t received_messages = 0;
  int64_t waited_ns = 0;  // of the calling thread, over all collectives
  Traffic& operator+=(const Traffic& other);
};

// The arguments of a collective. The named functions of Group fill them in.
struct CollectiveArgs {
  Collective collective = Collective::AllReduce;
  TensorRef in;   // data may be null on a rank without a part, but the shape must be set
  TensorRef out;  // the same tensor as `in` for all_reduce, reduce and broadcast
  ReduceOp op = ReduceOp::Sum;
  Algorithm algorithm = Algorithm::Auto;
  int root = 0;
  std::span<const int64_t> counts;       // elements of each rank's part; empty: balanced
  std::span<const int64_t> recv_counts;  // only for all_to_all with unequal counts
};

// Ranks that communicate, seen from one of them. Every member makes the same calls in the same
// order, from one thread at a time. A group of one rank is not special. If a rank fails, calls do
// not match or a deadline passes, CommError with the first cause is thrown on all ranks.
class Group {
 public:
  Group(RankContext& context, GroupShape shape);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const { return shape_.rank; }
  int size() const { return shape_.size(); }
  const std::string& name() const { return shape_.name; }
  std::span<const int> members() const { return shape_.members; }  // world ranks
  // True if all members can access each other's memory, so that Algorithm::Shared can be used.
  bool shares_memory() const { return board_.has_value(); }

  // In place: x becomes the reduction over the ranks.
  void all_reduce(TensorRef x, ReduceOp op = ReduceOp::Sum, Algorithm algorithm = Algorithm::Auto,
                  CallSite site = CallSite::current());
  // In place on the root. On other ranks x does not change.
  void reduce(TensorRef x, int root, ReduceOp op = ReduceOp::Sum,
              Algorithm algorithm = Algorithm::Auto, CallSite site = CallSite::current());
  void broadcast(TensorRef x, int root, Algorithm algorithm = Algorithm::Auto,
                 CallSite site = CallSite::current());
  // `in` holds all parts in rank order on the root. Its data may be null on other ranks.
  void scatter(TensorRef in, TensorRef out, int root, Algorithm algorithm = Algorithm::Auto,
               CallSite site = CallSite::current());
  // `out` receives all parts in rank order on the root. Its data may be null on other ranks.
  void gather(TensorRef in, TensorRef out, int root, Algorithm algorithm = Algorithm::Auto,
              CallSite site = CallSite::current());
  void all_gather(TensorRef in, TensorRef out, Algorithm algorithm = Algorithm::Auto,
                  CallSite site = CallSite::current());
  void reduce_scatter(TensorRef in, TensorRef out, ReduceOp op = ReduceOp::Sum,
                      Algorithm algorithm = Algorithm::Auto, CallSite site = CallSite::current());
  // Part i of `in` goes to rank i. `out` receives the parts in rank order.
  void all_to_all(TensorRef in, TensorRef out, Algorithm algorithm = Algorithm::Auto,
                  CallSite site = CallSite::current());
  void barrier(CallSite site = CallSite::current());
  // A barrier after work that a single rank may do alone, such as writing files. Its deadline is
  // WorldOptions::progress_timeout_s, counted from the last progress() that any rank has shown.
  void monitored_barrier(CallSite site = CallSite::current());
  // Progress of the work that this rank does alone.
  Progress& progress();
  // Runs any collective, also with counts that differ by rank.
  void run(const CollectiveArgs& args, CallSite site = CallSite::current());
  // Returns the seconds of each of `repeat` calls of the backend's own collective, for comparison.
  std::vector<double> time_native(CollectiveArgs args, int repeat,
                                  CallSite site = CallSite::current());
  // Starts the collective on the communication thread. Works of one group run in the order of their
  // calls.
  Work start(const CollectiveArgs& args, CallSite site = CallSite::current());

  // Messages are matched in order by (peer, tag). Each pair of ranks can have Channel::kSlots
  // messages in flight; a further send waits for the first of them.
  void send(TensorRef x, int peer, int tag = 0, CallSite site = CallSite::current());
  void recv(TensorRef x, int peer, int tag = 0, CallSite site = CallSite::current());
  Work start_send(TensorRef x, int peer, int tag = 0, CallSite site = CallSite::current());
  Work start_recv(TensorRef x, int peer, int tag = 0, CallSite site = CallSite::current());

  // Called by all members. Those with the same color form a group, ordered by (key, rank in this
  // group).
  std::unique_ptr<Group> split(int color, int key, std::string name,
                               CallSite site = CallSite::current());

  // Ends every wait of every rank of the world with CommError(why).
  void abort(const std::string& why);

  // Payload that this rank has sent and received, without headers and without copies to itself.
  Traffic traffic(Collective collective) const;
  Traffic traffic() const;
  // Announces a call: plans it and allocates its scratch. Call it before the first such call, while
  // nothing is in flight. A call that was not announced allocates when it runs.
  void reserve(const CollectiveArgs& args);
  // Returns the algorithm that Auto or Canonical means for this call.
  Algorithm resolve(const CollectiveArgs& args);
  // Returns the number of rounds of one call. Shared has one meeting, or two if ranks use each
  // other's buffers.
  int rounds(const CollectiveArgs& args);
  // Returns the payload of one call as `traffic` will count it.
  Traffic predict(const CollectiveArgs& args);
  // Scratch of the message algorithms so far.
  int64_t scratch_bytes() const { return scratch_.bytes(); }

  // For the code that drives operations.
  void count_pending(const Operation& operation, int change);
  bool is_next(const Operation& operation, uint64_t pass);
  void begin(Operation& operation);
  SharedBoard& board() { return *board_; }
  void complete(Operation& operation);
  void fail(const std::string& what);
  // For Work: adds time that the calling thread has waited.
  void count_waited(int64_t ns) { waited_ns_.fetch_add(ns, std::memory_order_relaxed); }

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
    CommPlan plan;  // only for message algorithms
  };

  int64_t full_count(const CollectiveArgs& args) const;
  void check_args(const CollectiveArgs& args, int64_t count) const;
  const Entry& entry_of(const CollectiveArgs& args, int64_t count);
  // The plan of a message algorithm. Unequal counts may depend on the data and never occur again,
  // so they are planned in `unequal`, which keeps its memory from call to call.
  const CommPlan& plan_of(const CollectiveArgs& args, int64_t count, CommPlan& unequal);
  void prepare(const CollectiveArgs& args, const CallSite& site, Operation& operation);
  void prepare_direct(Collective collective, TensorRef x, int peer, int tag, const CallSite& site,
                      Operation& operation);
  // How often the call is made; tests may return 0 or 2.
  int times(Collective collective, const CallSite& site) const;
  void run_once(const CollectiveArgs& args, const CallSite& site);
  Work start_once(const CollectiveArgs& args, const CallSite& site);
  Work start_direct(Collective collective, TensorRef x, int peer, int tag, const CallSite& site);
  Work start_direct_once(Collective collective, TensorRef x, int peer, int tag,
                         const CallSite& site);
  void grow_scratch(int64_t bytes);
  bool caller_may_drive(const Operation& operation) const;
  void run_prepared(Operation& operation);

  RankContext& context_;
  GroupShape shape_;
  std::vector<int> node_of_;
  std::unique_ptr<Transport> transport_;
  std::optional<SharedBoard> board_;
  uint64_t sequence_ = 0;
  std::array<TrafficCounter, kNumCollectives> traffic_;
  std::unordered_map<PlanKey, Entry, PlanKeyHash> plans_;
  Buffer scratch_;
  Operation caller_operation_;
  std::atomic<int> pending_[2] = {0, 0};  // [Lane]: operations on the communication thread
  std::atomic<int64_t> waited_ns_{0};
  uint64_t last_pass_ = 0;
  std::vector<Work> repeated_;  // only for tests
};

}  // namespace trireme
