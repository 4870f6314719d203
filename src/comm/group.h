#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/progress.h"
#include "collectives/collective.h"
#include "comm/group_shape.h"
#include "comm/work.h"
#include "tensor/tensor.h"

namespace trireme {

class GroupDriver;
class ProgressPage;
class Turns;
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
  bool is_short = false;                 // few bytes, on all ranks: not worth passing the turn
  // The input and the result stay untouched until the next run() of the same action on this group
  // has returned. So run() may return at once, and the next run() waits for both calls.
  bool joins_next = false;
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
  const GroupShape& shape() const { return shape_; }
  std::span<const int> members() const { return shape_.members; }  // world ranks
  // True if all members can access each other's memory, so that Algorithm::Shared can be used.
  bool shares_memory() const;

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
  // Returns how far a member is with work that it does alone. Ranks of other hosts send this at
  // intervals.
  const Progress& progress_of(int member) const;
  // Where the rank shows its agent what it does.
  ProgressPage& page();
  // Runs any collective, also with counts that differ by rank.
  void run(const CollectiveArgs& args, CallSite site = CallSite::current());
  // Makes the call on the communication thread. Works of one group are done in the order of their
  // calls.
  Work start(const CollectiveArgs& args, CallSite site = CallSite::current());

  // From now on run() passes the turn while its call travels, if it is made by a piece of `turns`.
  // `turns` must outlive the calls.
  void take_turns(Turns& turns) { turns_ = &turns; }

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
  // The same if another member is the one that has failed.
  void abort_for(int member, const std::string& why);

  // Payload that this rank has sent and received, without headers and without copies to itself.
  Traffic traffic(Collective collective) const;
  Traffic traffic() const;
  int64_t waited_ns() const;  // as in traffic()
  // Announces a call: plans it and allocates its scratch. Call it before the first such call, while
  // nothing is in flight. A call that was not announced allocates when it runs.
  void reserve(const CollectiveArgs& args);
  // Scratch memory of message algorithms, so far.
  int64_t scratch_bytes() const;

  // Makes the calls. Benchmarks and tests ask it what a call would do (comm/group_driver.h).
  GroupDriver& driver() { return *driver_; }

 private:
  RankContext& context_;
  GroupShape shape_;
  std::unique_ptr<GroupDriver> driver_;
  Turns* turns_ = nullptr;
  std::optional<Work> joined_;  // the last call with joins_next, until the next run() takes it
};

}  // namespace trireme
