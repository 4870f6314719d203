#include "comm/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/hash.h"
#include "comm/rank_context.h"
#include "comm/reduce.h"

namespace trireme {
namespace {

bool is_rooted(Collective c) {
  return c == Collective::Reduce || c == Collective::Broadcast || c == Collective::Scatter ||
         c == Collective::Gather;
}
bool is_reduction(Collective c) {
  return c == Collective::AllReduce || c == Collective::Reduce || c == Collective::ReduceScatter;
}
const std::byte* bytes_of(const TensorRef& x) { return static_cast<const std::byte*>(x.data); }

}  // namespace

Traffic& Traffic::operator+=(const Traffic& other) {
  sent_bytes += other.sent_bytes;
  received_bytes += other.received_bytes;
  sent_messages += other.sent_messages;
  received_messages += other.received_messages;
  waited_ns += other.waited_ns;
  return *this;
}

size_t Group::PlanKeyHash::operator()(const PlanKey& key) const {
  uint64_t h = key.kinds * 0x9E3779B97F4A7C15ull;
  h = (h ^ key.root_and_counts) * 0xC2B2AE3D27D4EB4Full;
  return size_t((h ^ (h >> 31) ^ uint64_t(key.count)) * 0x9E3779B97F4A7C15ull);
}

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

// ---- what the caller asks for

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

void Group::run(const CollectiveArgs& args, CallSite site) {
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
  Operation* operation = context_.thread.acquire();
  prepare_direct(Collective::Send, x, peer, tag, site, *operation);
  context_.thread.submit(operation);
  return Work(context_, operation);
}
Work Group::start_recv(TensorRef x, int peer, int tag, CallSite site) {
  Operation* operation = context_.thread.acquire();
  prepare_direct(Collective::Recv, x, peer, tag, site, *operation);
  context_.thread.submit(operation);
  return Work(context_, operation);
}

std::unique_ptr<Group> Group::split(int color, int key, std::string name, CallSite site) {
  std::vector<int64_t> mine = {color, key, context_.next_group_id};
  std::vector<int64_t> all(size_t(3 * size()));
  const auto ref = [](std::vector<int64_t>& v) {
    return TensorRef{v.data(), DType::I64, Shape{int64_t(v.size())}};
  };
  all_gather(ref(mine), ref(all), Algorithm::Auto, site);
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

// ---- from a call to an operation

int64_t Group::full_count(const CollectiveArgs& args) const {
  switch (args.collective) {
    case Collective::AllGather:
    case Collective::Gather:
      return args.out.num_elements();
    case Collective::AllToAll:
      return args.counts.empty() ? args.in.num_elements() : -1;
    case Collective::Barrier:
      return 0;
    default:
      return args.in.num_elements();
  }
}

void Group::check_args(const CollectiveArgs& a, int64_t count) const {
  const auto part = [&](std::span<const int64_t> counts, int r) {
    return counts.empty() ? balanced_count(count, size(), r) : counts[size_t(r)];
  };
  TRIREME_CHECK(a.counts.empty() || int(a.counts.size()) == size(), "one count per rank");
  TRIREME_CHECK(!is_rooted(a.collective) || (a.root >= 0 && a.root < size()),
                fmt::format("root {} is not in group {} of {}", a.root, name(), size()));
  TRIREME_CHECK(a.in.dtype == a.out.dtype, "input and output differ in dtype");
  const int64_t in = a.in.num_elements();
  const int64_t out = a.out.num_elements();
  const auto expect = [&](bool holds) {
    TRIREME_CHECK(holds,
                  fmt::format("{} over {} ranks of group {} cannot go from {} to {} elements",
                              name_of(a.collective), size(), name(), in, out));
  };
  const auto total = [](std::span<const int64_t> counts) {
    return std::accumulate(counts.begin(), counts.end(), int64_t{0});
  };
  switch (a.collective) {
    case Collective::AllGather:
    case Collective::Gather:
      return expect(in == part(a.counts, rank()) && (a.counts.empty() || total(a.counts) == out));
    case Collective::ReduceScatter:
    case Collective::Scatter:
      return expect(out == part(a.counts, rank()) && (a.counts.empty() || total(a.counts) == in));
    case Collective::AllToAll:
      if (a.counts.empty()) return expect(out == size() * part({}, rank()));
      TRIREME_CHECK(int(a.recv_counts.size()) == size(), "one receive count per rank");
      return expect(total(a.counts) == in && total(a.recv_counts) == out);
    default:
      return expect(in == out);
  }
}

const Group::Entry& Group::plan_of(const CollectiveArgs& args, int64_t count) {
  uint64_t counts_hash = 0;
  if (!args.counts.empty()) counts_hash = hash64(std::as_bytes(args.counts));
  if (!args.recv_counts.empty()) counts_hash = hash64(std::as_bytes(args.recv_counts), counts_hash);
  const PlanKey key{uint64_t(args.collective) | uint64_t(args.algorithm) << 8 |
                        uint64_t(size_of(args.in.dtype)) << 16,
                    counts_hash ^ uint64_t(args.root), count};
  const auto found = plans_.find(key);
  if (found != plans_.end()) [[likely]]
    return found->second;
  // Unequal counts may come from the data, and never again: their plans are not kept for ever.
  constexpr size_t kMostPlans = 512;
  const bool is_idle = pending_[0].load() == 0 && pending_[1].load() == 0;
  if (count < 0 && plans_.size() >= kMostPlans && is_idle) {
    std::erase_if(plans_, [](const auto& plan) { return plan.first.count < 0; });
  }
  PlanRequest request{.collective = args.collective,
                      .algorithm = args.algorithm,
                      .rank = rank(),
                      .size = size(),
                      .root = args.root,
                      .count = std::max<int64_t>(count, 0),
                      .counts = args.counts,
                      .recv_counts = args.recv_counts,
                      .node_of = node_of_};
  const bool free_choice =
      args.algorithm == Algorithm::Auto || args.algorithm == Algorithm::Canonical;
  if (free_choice && count < 0) {
    request.algorithm = Algorithm::Naive;
  } else if (free_choice) {
    request.algorithm = choose_algorithm(request, size_of(args.in.dtype), context_.options.cost,
                                         args.algorithm == Algorithm::Canonical);
  }
  Result<CommPlan> plan = plan_collective(request);
  TRIREME_CHECK(plan.ok(), plan.error().message);
  return plans_.emplace(key, Entry{request.algorithm, std::move(plan).value()}).first->second;
}

Algorithm Group::resolve(const CollectiveArgs& args) {
  const bool may_share = args.algorithm == Algorithm::Auto ||
                         args.algorithm == Algorithm::Canonical ||
                         args.algorithm == Algorithm::Shared;
  if (may_share && board_.has_value() &&
      (args.counts.empty() || board_->reaches_everything() ||
       args.collective != Collective::AllToAll)) {
    return Algorithm::Shared;
  }
  TRIREME_CHECK(args.algorithm != Algorithm::Shared,
                "the ranks of group " + name() + " do not see each other's memory");
  if (args.algorithm == Algorithm::Native) return Algorithm::Native;
  return plan_of(args, full_count(args)).algorithm;
}

void Group::prepare(const CollectiveArgs& args, const CallSite& site, Operation& operation) {
  const int64_t count = full_count(args);
  check_args(args, count);
  if (is_reduction(args.collective)) {
    const Status reducible = check_reducible(args.in.dtype);
    TRIREME_CHECK(reducible.ok(), reducible.error().message);
  }
  const Algorithm algorithm = resolve(args);
  operation.group = this;
  operation.signature = {.sequence = ++sequence_,
                         .count = count,
                         .group = shape_.id,
                         .root = is_rooted(args.collective) ? args.root : 0,
                         .collective = args.collective,
                         .op = args.op,
                         .dtype = args.in.dtype,
                         .algorithm = algorithm,
                         .line = site.line(),
                         .file = site.file_name(),
                         .group_name = shape_.name.c_str()};
  operation.lane = Lane::Collective;
  operation.begun = false;
  operation.done.store(false, std::memory_order_relaxed);
  operation.counts.assign(args.counts.begin(), args.counts.end());
  operation.recv_counts.assign(args.recv_counts.begin(), args.recv_counts.end());
  if (shape_.id < kWatchedGroups) {
    context_.backend.fabric()
        .cell(context_.backend.rank())
        .issued[shape_.id]
        .store(sequence_, std::memory_order_release);
  }
  if (algorithm == Algorithm::Shared || algorithm == Algorithm::Native) {
    operation.way =
        algorithm == Algorithm::Shared ? Operation::Way::Shared : Operation::Way::Native;
    operation.shared = {.signature = &operation.signature,
                        .collective = args.collective,
                        .dtype = args.in.dtype,
                        .op = args.op,
                        .root = args.root,
                        .count = count,
                        .counts = operation.counts,
                        .recv_counts = operation.recv_counts,
                        .in = bytes_of(args.in),
                        .out = static_cast<std::byte*>(args.out.data)};
    return;
  }
  const CommPlan& plan = plan_of(args, count).plan;
  operation.way = Operation::Way::Messages;
  operation.tmp_bytes = plan.tmp_count * size_of(args.in.dtype);
  operation.task = {.steps = plan.steps,
                    .sends_empty = plan.sends_empty,
                    .mean_begin = plan.result.begin,
                    .mean_count = plan.result_is_mean ? 0 : plan.result.count,
                    .transport = transport_.get(),
                    .traffic = &traffic_[size_t(args.collective)],
                    .signature = &operation.signature,
                    .rank = rank(),
                    .size = size(),
                    .dtype = args.in.dtype,
                    .op = args.op,
                    .in = bytes_of(args.in),
                    .out = static_cast<std::byte*>(args.out.data)};
}

void Group::prepare_direct(Collective collective, TensorRef x, int peer, int tag,
                           const CallSite& site, Operation& operation) {
  TRIREME_CHECK(
      peer >= 0 && peer < size() && peer != rank(),
      fmt::format("{} with rank {} in group {} of {}", name_of(collective), peer, name(), size()));
  const bool sends = collective == Collective::Send;
  operation.group = this;
  operation.signature = {.sequence = 0,
                         .count = x.num_elements(),
                         .group = shape_.id,
                         .root = peer,
                         .collective = collective,
                         .dtype = x.dtype,
                         .line = site.line(),
                         .file = site.file_name(),
                         .group_name = shape_.name.c_str()};
  operation.lane = Lane::Direct;
  operation.begun = false;
  operation.done.store(false, std::memory_order_relaxed);
  operation.way = Operation::Way::Messages;
  operation.tmp_bytes = 0;
  operation.direct_step = Step{};
  (sends ? operation.direct_step.send_to : operation.direct_step.recv_from) = peer;
  (sends ? operation.direct_step.send : operation.direct_step.recv) = {Memory::Out, 0,
                                                                       x.num_elements()};
  operation.task = {.steps = {&operation.direct_step, 1},
                    .sends_empty = true,
                    .transport = transport_.get(),
                    .traffic = &traffic_[size_t(collective)],
                    .signature = &operation.signature,
                    .lane = Lane::Direct,
                    .tag = tag,
                    .rank = rank(),
                    .size = size(),
                    .dtype = x.dtype,
                    .out = static_cast<std::byte*>(x.data)};
}

// ---- driving

// The scratch and the board belong to one collective at a time, so they are given out here and not
// when the call is made.
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
  if (operation.tmp_bytes > scratch_.bytes()) scratch_ = Buffer::allocate(operation.tmp_bytes);
  operation.task.tmp = static_cast<std::byte*>(scratch_.data());
  operation.execution.start(operation.task);
}

void Group::complete(Operation& operation) {
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

void Group::fail(const std::string& what) {
  context_.backend.fabric().abort(context_.backend.rank(), what);
}

void Group::count_pending(const Operation& operation, int change) {
  pending_[int(operation.lane)].fetch_add(change, std::memory_order_acq_rel);
}

bool Group::is_next(const Operation& operation, uint64_t pass) {
  if (operation.lane == Lane::Direct) return true;
  if (last_pass_ == pass) return false;  // an earlier collective is under way
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

// ---- accounting

Traffic Group::traffic(Collective collective) const {
  const TrafficCounter& counter = traffic_[size_t(collective)];
  return {counter.sent_bytes.load(std::memory_order_relaxed),
          counter.received_bytes.load(std::memory_order_relaxed),
          counter.sent_messages.load(std::memory_order_relaxed),
          counter.received_messages.load(std::memory_order_relaxed)};
}

Traffic Group::traffic() const {
  Traffic sum;
  for (int c = 0; c < kNumCollectives; ++c) sum += traffic(Collective(c));
  sum.waited_ns = waited_ns_.load(std::memory_order_relaxed);
  return sum;
}

int Group::rounds(const CollectiveArgs& args) {
  const int64_t count = full_count(args);
  const Algorithm algorithm = resolve(args);
  if (algorithm == Algorithm::Native || size() == 1) return 0;
  if (algorithm != Algorithm::Shared) return plan_of(args, count).plan.rounds;
  const bool eager = count >= 0 && count * size_of(args.in.dtype) <= kEagerBytes;
  return eager ? 1 : 2;
}

Traffic Group::predict(const CollectiveArgs& args) {
  const int64_t count = full_count(args);
  const int64_t element = size_of(args.in.dtype);
  PlanTraffic moved;
  if (resolve(args) == Algorithm::Shared) {
    moved = shared_traffic({.collective = args.collective,
                            .rank = rank(),
                            .size = size(),
                            .root = args.root,
                            .count = count,
                            .counts = args.counts,
                            .recv_counts = args.recv_counts},
                           element);
  } else {
    moved = traffic_of(plan_of(args, count).plan);
  }
  return {moved.sent * element, moved.received * element, moved.sent_messages,
          moved.received_messages};
}

}  // namespace trireme
