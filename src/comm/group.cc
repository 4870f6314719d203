#include "comm/group.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "comm/left_out.h"
#include "comm/rank_context.h"

namespace trireme {

Group::Group(RankContext& context, GroupShape shape) : context_(context), shape_(std::move(shape)) {
  for (int member : shape_.members) {
    node_of_.push_back(context.backend.node_of()[size_t(member)]);
  }
  transport_ = context.backend.connect(shape_);
  if (std::optional<SharedView> view = context.backend.view(shape_)) {
    board_.emplace(context.backend.fabric(), shape_, std::move(*view));
  }
  caller_operation_.counts.reserve(shape_.members.size());
  caller_operation_.recv_counts.reserve(shape_.members.size());
}

Group::~Group() = default;

// ---- the collectives

void Group::all_reduce(TensorRef x, ReduceOp op, Algorithm algorithm, CallSite site) {
  run({.collective = Collective::AllReduce, .in = x, .out = x, .op = op, .algorithm = algorithm},
      site);
}
void Group::reduce(TensorRef x, int root, ReduceOp op, Algorithm algorithm, CallSite site) {
  run({.collective = Collective::Reduce,
       .in = x,
       .out = x,
       .op = op,
       .algorithm = algorithm,
       .root = root},
      site);
}
void Group::broadcast(TensorRef x, int root, Algorithm algorithm, CallSite site) {
  run({.collective = Collective::Broadcast,
       .in = x,
       .out = x,
       .algorithm = algorithm,
       .root = root},
      site);
}
void Group::scatter(TensorRef in, TensorRef out, int root, Algorithm algorithm, CallSite site) {
  run({.collective = Collective::Scatter,
       .in = in,
       .out = out,
       .algorithm = algorithm,
       .root = root},
      site);
}
void Group::gather(TensorRef in, TensorRef out, int root, Algorithm algorithm, CallSite site) {
  run({.collective = Collective::Gather,
       .in = in,
       .out = out,
       .algorithm = algorithm,
       .root = root},
      site);
}
void Group::all_gather(TensorRef in, TensorRef out, Algorithm algorithm, CallSite site) {
  run({.collective = Collective::AllGather, .in = in, .out = out, .algorithm = algorithm}, site);
}
void Group::reduce_scatter(TensorRef in, TensorRef out, ReduceOp op, Algorithm algorithm,
                           CallSite site) {
  run({.collective = Collective::ReduceScatter,
       .in = in,
       .out = out,
       .op = op,
       .algorithm = algorithm},
      site);
}
void Group::all_to_all(TensorRef in, TensorRef out, Algorithm algorithm, CallSite site) {
  run({.collective = Collective::AllToAll, .in = in, .out = out, .algorithm = algorithm}, site);
}
void Group::barrier(CallSite site) {
  const TensorRef nothing{nullptr, DType::U8, Shape{0}};
  run({.collective = Collective::Barrier, .in = nothing, .out = nothing}, site);
}
void Group::monitored_barrier(CallSite site) {
  const TensorRef nothing{nullptr, DType::U8, Shape{0}};
  start({.collective = Collective::Barrier, .in = nothing, .out = nothing}, site)
      .wait(context_.options.progress_timeout_s);
}
Progress& Group::progress() { return context_.backend.progress(); }

int Group::times(Collective collective, const CallSite& site) const {
  const CallHook& hook = context_.options.call_hook;
  return hook ? hook(*this, collective, site) : 1;
}

void Group::run(const CollectiveArgs& args, CallSite site) {
  const int times = this->times(args.collective, site);
  if (times == 0) leave_out(args, rank(), size());
  for (int i = 0; i < times; ++i) run_once(args, site);
}

void Group::run_once(const CollectiveArgs& args, const CallSite& site) {
  prepare(args, site, caller_operation_);
  run_prepared(caller_operation_);
}

std::vector<double> Group::time_native(CollectiveArgs args, int repeat, CallSite site) {
  args.algorithm = Algorithm::Native;
  caller_operation_.native_repeat = repeat;
  run(args, site);
  caller_operation_.native_repeat = 1;
  return caller_operation_.native_seconds;
}

Work Group::start(const CollectiveArgs& args, CallSite site) {
  const int times = this->times(args.collective, site);
  if (times == 0) {
    leave_out(args, rank(), size());
    return {};
  }
  for (int i = 1; i < times; ++i) start_once(args, site).wait();
  return start_once(args, site);
}

Work Group::start_once(const CollectiveArgs& args, const CallSite& site) {
  Operation* operation = context_.thread.acquire();
  prepare(args, site, *operation);
  context_.thread.submit(operation);
  return Work(context_, operation);
}

void Group::send(TensorRef x, int peer, int tag, CallSite site) {
  prepare_direct(Collective::Send, x, peer, tag, site, caller_operation_);
  run_prepared(caller_operation_);
}
void Group::recv(TensorRef x, int peer, int tag, CallSite site) {
  prepare_direct(Collective::Recv, x, peer, tag, site, caller_operation_);
  run_prepared(caller_operation_);
}
Work Group::start_send(TensorRef x, int peer, int tag, CallSite site) {
  return start_direct(Collective::Send, x, peer, tag, site);
}
Work Group::start_recv(TensorRef x, int peer, int tag, CallSite site) {
  return start_direct(Collective::Recv, x, peer, tag, site);
}

Work Group::start_direct(Collective collective, TensorRef x, int peer, int tag,
                         const CallSite& site) {
  const int times = this->times(collective, site);
  if (times == 0) {
    if (collective == Collective::Recv) std::memset(x.data, 0, size_t(x.bytes()));
    return {};
  }
  for (int i = 1; i < times; ++i) {
    repeated_.push_back(start_direct_once(collective, x, peer, tag, site));
  }
  return start_direct_once(collective, x, peer, tag, site);
}

Work Group::start_direct_once(Collective collective, TensorRef x, int peer, int tag,
                              const CallSite& site) {
  Operation* operation = context_.thread.acquire();
  prepare_direct(collective, x, peer, tag, site, *operation);
  context_.thread.submit(operation);
  return Work(context_, operation);
}

std::unique_ptr<Group> Group::split(int color, int key, std::string name, CallSite site) {
  std::vector<int64_t> mine = {color, key, context_.next_group_id};
  std::vector<int64_t> all(size_t(3 * size()));
  const auto ref = [](std::vector<int64_t>& v) {
    return TensorRef{v.data(), DType::I64, Shape{int64_t(v.size())}};
  };
  run_once({.collective = Collective::AllGather, .in = ref(mine), .out = ref(all)}, site);
  GroupShape shape{.id = 0, .name = std::move(name)};
  std::vector<int> places;
  for (int r = 0; r < size(); ++r) {
    shape.id = std::max(shape.id, int(all[size_t(3 * r + 2)]));
    if (all[size_t(3 * r)] == color) places.push_back(r);
  }
  context_.next_group_id = shape.id + 1;
  std::stable_sort(places.begin(), places.end(),
                   [&](int a, int b) { return all[size_t(3 * a + 1)] < all[size_t(3 * b + 1)]; });
  for (size_t i = 0; i < places.size(); ++i) {
    shape.members.push_back(shape_.members[size_t(places[i])]);
    if (places[i] == rank()) shape.rank = int(i);
  }
  return std::make_unique<Group>(context_, std::move(shape));
}

void Group::abort(const std::string& why) {
  context_.backend.fabric().abort(context_.backend.rank(), why);
}

// ---- driving operations

// The scratch and the board belong to one collective at a time, so an operation takes them when it
// begins, not when the call is made.
void Group::begin(Operation& operation) {
  if (operation.way == Operation::Way::Shared) {
    board_->start(operation.shared);
    return;
  }
  if (operation.way == Operation::Way::Native) {
    operation.native_seconds =
        context_.backend.run_native(shape_, operation.shared, operation.native_repeat);
    TRIREME_CHECK(!operation.native_seconds.empty(),
                  "this backend has no such collective of its own for group " + name());
    return;
  }
  grow_scratch(operation.tmp_bytes);
  operation.task.tmp = static_cast<std::byte*>(scratch_.data());
  operation.execution.start(operation.task);
}

void Group::grow_scratch(int64_t bytes) {
  if (bytes > scratch_.bytes()) scratch_ = Buffer::allocate(bytes);
}

void Group::complete(Operation& operation) {
  if (operation.way != Operation::Way::Shared) return;  // messages are counted when they are sent
  const SharedBoard::Call& call = operation.shared;
  const PlanTraffic moved = shared_traffic({.collective = call.collective,
                                            .rank = rank(),
                                            .size = size(),
                                            .root = call.root,
                                            .count = call.count,
                                            .counts = call.counts,
                                            .recv_counts = call.recv_counts},
                                           size_of(call.dtype));
  TrafficCounter& counter = traffic_[size_t(call.collective)];
  const int64_t element = size_of(call.dtype);
  counter.sent_bytes.fetch_add(moved.sent * element, std::memory_order_relaxed);
  counter.received_bytes.fetch_add(moved.received * element, std::memory_order_relaxed);
}

void Group::fail(const std::string& what) {
  context_.backend.fabric().abort(context_.backend.rank(), what);
}

void Group::count_pending(const Operation& operation, int change) {
  pending_[int(operation.lane)].fetch_add(change, std::memory_order_acq_rel);
}

bool Group::is_next(const Operation& operation, uint64_t pass) {
  if (operation.lane == Lane::Direct) return true;
  if (last_pass_ == pass) return false;  // an earlier collective of the group is still active
  last_pass_ = pass;
  return true;
}

bool Group::caller_may_drive(const Operation& operation) const {
  if (operation.way == Operation::Way::Native) return false;
  return (context_.backend.caller_drives() || operation.way == Operation::Way::Shared) &&
         pending_[int(operation.lane)].load(std::memory_order_acquire) == 0;
}

void Group::run_prepared(Operation& operation) {
  if (!caller_may_drive(operation)) {
    operation.error = nullptr;
    context_.thread.submit(&operation);
    Work::wait_for(context_, operation);
    return;
  }
  const int64_t begin_ns = steady_now_ns();
  try {
    context_.waiter.until(
        {operation.signature, shape_.members}, [&] { return operation.advance(); },
        [&] { return operation.waiting_for.load(std::memory_order_relaxed); });
    count_waited(steady_now_ns() - begin_ns);
  } catch (...) {
    operation.cancel();
    throw;
  }
}

}  // namespace trireme
