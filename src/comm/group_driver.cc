#include "comm/group_driver.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "comm/left_out.h"
#include "comm/rank_context.h"

namespace trireme {

GroupDriver::GroupDriver(RankContext& context, const Group& group)
    : context_(context), group_(group) {
  const GroupShape& shape = group.shape();
  for (int member : shape.members) {
    node_of_.push_back(context.backend.node_of()[size_t(member)]);
  }
  transport_ = context.backend.connect(shape);
  if (std::optional<SharedView> view = context.backend.view(shape)) {
    board_.emplace(context.backend.fabric(), shape, std::move(*view));
  }
  caller_operation_.counts.reserve(shape.members.size());
  caller_operation_.recv_counts.reserve(shape.members.size());
}

int GroupDriver::times(Collective collective, const CallSite& site) const {
  const CallHook& hook = context_.options.call_hook;
  return hook ? hook(group_, collective, site) : 1;
}

void GroupDriver::run(const CollectiveArgs& args, const CallSite& site) {
  const int times = this->times(args.collective, site);
  if (times == 0) leave_out(args, rank(), size());
  for (int i = 0; i < times; ++i) run_once(args, site);
}

void GroupDriver::run_once(const CollectiveArgs& args, const CallSite& site) {
  prepare(args, site, caller_operation_);
  run_prepared(caller_operation_);
}

std::vector<double> GroupDriver::time_native(CollectiveArgs args, int repeat, CallSite site) {
  args.algorithm = Algorithm::Native;
  caller_operation_.native_repeat = repeat;
  run(args, site);
  caller_operation_.native_repeat = 1;
  return caller_operation_.native_seconds;
}

Work GroupDriver::start(const CollectiveArgs& args, const CallSite& site) {
  const int times = this->times(args.collective, site);
  if (times == 0) {
    leave_out(args, rank(), size());
    return {};
  }
  for (int i = 1; i < times; ++i) start_once(args, site).wait();
  return start_once(args, site);
}

Work GroupDriver::start_once(const CollectiveArgs& args, const CallSite& site) {
  Operation* operation = context_.thread.acquire();
  prepare(args, site, *operation);
  context_.thread.submit(operation);
  return Work(context_, operation);
}

void GroupDriver::run_direct(Collective collective, TensorRef x, int peer, int tag,
                             const CallSite& site) {
  prepare_direct(collective, x, peer, tag, site, caller_operation_);
  run_prepared(caller_operation_);
}

Work GroupDriver::start_direct(Collective collective, TensorRef x, int peer, int tag,
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

Work GroupDriver::start_direct_once(Collective collective, TensorRef x, int peer, int tag,
                                    const CallSite& site) {
  Operation* operation = context_.thread.acquire();
  prepare_direct(collective, x, peer, tag, site, *operation);
  context_.thread.submit(operation);
  return Work(context_, operation);
}

// The scratch and the board belong to one collective at a time, so they are given out here and not
// when the call is made.
void GroupDriver::begin(Operation& operation) {
  if (operation.way == Operation::Way::Shared) {
    board_->start(operation.shared);
    return;
  }
  if (operation.way == Operation::Way::Native) {
    operation.native_seconds =
        context_.backend.run_native(group_.shape(), operation.shared, operation.native_repeat);
    TRIREME_CHECK(!operation.native_seconds.empty(),
                  "this backend has no such collective of its own for group " + name());
    return;
  }
  grow_scratch(operation.tmp_bytes);
  operation.task.tmp = static_cast<std::byte*>(scratch_.data());
  operation.execution.start(operation.task);
}

void GroupDriver::grow_scratch(int64_t bytes) {
  if (bytes > scratch_.bytes()) scratch_ = Buffer::allocate(bytes);
}

void GroupDriver::complete(Operation& operation) {
  if (operation.way != Operation::Way::Shared) return;  // messages were counted one by one
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

void GroupDriver::fail(const std::string& what) {
  context_.backend.fabric().abort(context_.backend.rank(), what);
}

void GroupDriver::count_waited(int64_t ns) {
  waited_ns_.fetch_add(ns, std::memory_order_relaxed);
  context_.page.add_waited(ns);
}

void GroupDriver::count_pending(const Operation& operation, int change) {
  pending_[int(operation.lane)].fetch_add(change, std::memory_order_acq_rel);
}

bool GroupDriver::is_next(const Operation& operation, uint64_t pass) {
  if (operation.lane == Lane::Direct) return true;
  if (last_pass_ == pass) return false;  // an earlier collective is under way
  last_pass_ = pass;
  return true;
}

bool GroupDriver::caller_may_drive(const Operation& operation) const {
  if (operation.way == Operation::Way::Native) return false;
  return (context_.backend.caller_drives() || operation.way == Operation::Way::Shared) &&
         pending_[int(operation.lane)].load(std::memory_order_acquire) == 0;
}

void GroupDriver::run_prepared(Operation& operation) {
  if (!caller_may_drive(operation)) {
    operation.error = nullptr;
    context_.thread.submit(&operation);
    Work::wait_for(context_, operation);
    return;
  }
  const int64_t begin_ns = steady_now_ns();
  try {
    context_.waiter.until(
        {operation.signature, members()},
        [&] {
          if (operation.advance()) return true;
          // A peer may first wait for another operation of this rank.
          context_.thread.drive_in_caller();
          return false;
        },
        [&] { return operation.waiting_for.load(std::memory_order_relaxed); });
    count_waited(steady_now_ns() - begin_ns);
  } catch (...) {
    operation.cancel();
    throw;
  }
}

}  // namespace trireme
