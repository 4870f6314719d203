// Turns a call into an operation: checks the arguments, then chooses an algorithm and its plan.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/hash.h"
#include "collectives/algorithms/algorithms.h"
#include "comm/group_driver.h"
#include "comm/rank_context.h"
#include "comm/reduce.h"

namespace trireme {
namespace {

bool is_free_choice(Algorithm algorithm) {
  return algorithm == Algorithm::Auto || algorithm == Algorithm::Canonical;
}

}  // namespace

size_t GroupDriver::PlanKeyHash::operator()(const PlanKey& key) const {
  uint64_t h = key.kinds * 0x9E3779B97F4A7C15ull;
  h = (h ^ key.root_and_counts) * 0xC2B2AE3D27D4EB4Full;
  return size_t((h ^ (h >> 31) ^ uint64_t(key.count)) * 0x9E3779B97F4A7C15ull);
}

int64_t GroupDriver::full_count(const CollectiveArgs& args) const {
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

void GroupDriver::check_args(const CollectiveArgs& a, int64_t count) const {
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
    TRIREME_CHECK(holds, fmt::format("{} over {} ranks of group {}: an input of {} and an output "
                                     "of {} elements do not match",
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

const GroupDriver::Entry& GroupDriver::entry_of(const CollectiveArgs& args, int64_t count) {
  const uint64_t counts_hash = args.counts.empty() ? 0 : hash64(std::as_bytes(args.counts));
  const PlanKey key{uint64_t(args.collective) | uint64_t(args.algorithm) << 8 |
                        uint64_t(size_of(args.in.dtype)) << 16,
                    counts_hash ^ uint64_t(args.root), count};
  const auto found = plans_.find(key);
  if (found != plans_.end()) [[likely]]
    return found->second;
  PlanRequest request{.collective = args.collective,
                      .algorithm = args.algorithm,
                      .rank = rank(),
                      .size = size(),
                      .root = args.root,
                      .count = count,
                      .counts = args.counts,
                      .node_of = node_of_};
  if (is_free_choice(args.algorithm)) {
    request.algorithm = choose_algorithm(request, size_of(args.in.dtype), context_.options.cost,
                                         args.algorithm == Algorithm::Canonical);
  }
  Result<CommPlan> plan = plan_collective(request);
  TRIREME_CHECK(plan.ok(), plan.error().message);
  return plans_.emplace(key, Entry{request.algorithm, std::move(plan).value()}).first->second;
}

const CommPlan& GroupDriver::plan_of(const CollectiveArgs& args, int64_t count, CommPlan& unequal) {
  if (count >= 0) return entry_of(args, count).plan;
  unequal.steps.clear();
  unequal.rounds = algorithms::pairwise_all_to_all(unequal, {.rank = rank(), .size = size()},
                                                   args.counts, args.recv_counts);
  return unequal;
}

Algorithm GroupDriver::resolve(const CollectiveArgs& args) {
  const bool may_share = is_free_choice(args.algorithm) || args.algorithm == Algorithm::Shared;
  if (may_share && board_.has_value() &&
      (args.counts.empty() || board_->reaches_everything() ||
       args.collective != Collective::AllToAll)) {
    return Algorithm::Shared;
  }
  TRIREME_CHECK(args.algorithm != Algorithm::Shared,
                "the ranks of group " + name() + " do not see each other's memory");
  if (args.algorithm == Algorithm::Native) return Algorithm::Native;
  const int64_t count = full_count(args);
  if (count >= 0) return entry_of(args, count).algorithm;
  TRIREME_CHECK(is_free_choice(args.algorithm) || args.algorithm == Algorithm::Naive,
                fmt::format("all_to_all with unequal counts has no algorithm {}; use naive",
                            name_of(args.algorithm)));
  return Algorithm::Naive;
}

void GroupDriver::reserve(const CollectiveArgs& args) {
  const int64_t count = full_count(args);
  check_args(args, count);
  const Algorithm algorithm = resolve(args);
  if (algorithm == Algorithm::Shared || algorithm == Algorithm::Native) return;
  CommPlan unequal;
  grow_scratch(plan_of(args, count, unequal).tmp_count * size_of(args.in.dtype));
}

void GroupDriver::prepare(const CollectiveArgs& args, const CallSite& site, Operation& operation) {
  const int64_t count = full_count(args);
  check_args(args, count);
  if (is_reduction(args.collective)) {
    const Status reducible = check_reducible(args.in.dtype);
    TRIREME_CHECK(reducible.ok(), reducible.error().message);
  }
  const Algorithm algorithm = resolve(args);
  operation.driver = this;
  operation.signature = {.sequence = ++sequence_,
                         .count = count,
                         .group = group_.shape().id,
                         .root = is_rooted(args.collective) ? args.root : 0,
                         .collective = args.collective,
                         .op = args.op,
                         .dtype = args.in.dtype,
                         .algorithm = algorithm,
                         .line = site.line(),
                         .file = site.file_name(),
                         .group_name = group_.shape().name.c_str()};
  operation.lane = Lane::Collective;
  operation.begun = false;
  operation.peer_left.reset();
  operation.done.store(false, std::memory_order_relaxed);
  operation.counts.assign(args.counts.begin(), args.counts.end());
  operation.recv_counts.assign(args.recv_counts.begin(), args.recv_counts.end());
  context_.page.begin_call(group_.shape().id, sequence_, int(args.collective),
                           std::max<int64_t>(0, count) * size_of(args.in.dtype));
  if (group_.shape().id < kWatchedGroups) {
    context_.backend.fabric()
        .cell(context_.backend.rank())
        .issued[group_.shape().id]
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
                        .in = static_cast<const std::byte*>(args.in.data),
                        .out = static_cast<std::byte*>(args.out.data)};
    return;
  }
  const CommPlan& plan = plan_of(args, count, operation.unequal);
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
                    .in = static_cast<const std::byte*>(args.in.data),
                    .out = static_cast<std::byte*>(args.out.data)};
}

void GroupDriver::prepare_direct(Collective collective, TensorRef x, int peer, int tag,
                                 const CallSite& site, Operation& operation) {
  TRIREME_CHECK(
      peer >= 0 && peer < size() && peer != rank(),
      fmt::format("{} with rank {} in group {} of {}", name_of(collective), peer, name(), size()));
  const bool sends = collective == Collective::Send;
  operation.driver = this;
  context_.page.begin_call(group_.shape().id, 0, int(collective), x.bytes());
  operation.signature = {.sequence = 0,
                         .count = x.num_elements(),
                         .group = group_.shape().id,
                         .root = peer,
                         .collective = collective,
                         .dtype = x.dtype,
                         .line = site.line(),
                         .file = site.file_name(),
                         .group_name = group_.shape().name.c_str()};
  operation.lane = Lane::Direct;
  operation.begun = false;
  operation.peer_left.reset();
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

}  // namespace trireme
