#include "comm/group.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "comm/group_driver.h"
#include "comm/rank_context.h"
#include "device/turns.h"

namespace trireme {

Group::Group(RankContext& context, GroupShape shape)
    : context_(context),
      shape_(std::move(shape)),
      driver_(std::make_unique<GroupDriver>(context, *this)) {}

Group::~Group() = default;

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
const Progress& Group::progress_of(int member) const {
  return context_.backend.fabric().cell(shape_.members[size_t(member)]).progress;
}

ProgressPage& Group::page() { return context_.page; }

void Group::run(const CollectiveArgs& args, CallSite site) {
  const bool takes_turns = turns_ != nullptr && turns_->are_taken();
  if (!takes_turns || size() == 1) return driver_->run(args, site);  // alone, nothing travels
  if (args.joins_next) {
    TRIREME_CHECK(!joined_, "two calls of group " + name() + " join the next one");
    joined_ = driver_->start(args, site);
    return;
  }
  // Taken before the turn passes: the other piece may have such a call, too.
  Work joined = joined_ ? std::move(*joined_) : Work();
  joined_.reset();
  if (args.is_short) {
    driver_->run(args, site);
  } else {
    Work work = driver_->start(args, site);
    turns_->pass();
    work.wait();
  }
  joined.wait();
}
Work Group::start(const CollectiveArgs& args, CallSite site) { return driver_->start(args, site); }

void Group::send(TensorRef x, int peer, int tag, CallSite site) {
  driver_->run_direct(Collective::Send, x, peer, tag, site);
}
void Group::recv(TensorRef x, int peer, int tag, CallSite site) {
  driver_->run_direct(Collective::Recv, x, peer, tag, site);
}
Work Group::start_send(TensorRef x, int peer, int tag, CallSite site) {
  return driver_->start_direct(Collective::Send, x, peer, tag, site);
}
Work Group::start_recv(TensorRef x, int peer, int tag, CallSite site) {
  return driver_->start_direct(Collective::Recv, x, peer, tag, site);
}

std::unique_ptr<Group> Group::split(int color, int key, std::string name, CallSite site) {
  std::vector<int64_t> mine = {color, key, context_.next_group_id};
  std::vector<int64_t> all(size_t(3 * size()));
  const auto ref = [](std::vector<int64_t>& v) {
    return TensorRef{v.data(), DType::I64, Shape{int64_t(v.size())}};
  };
  driver_->run_once({.collective = Collective::AllGather, .in = ref(mine), .out = ref(all)}, site);
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

bool Group::shares_memory() const { return driver_->has_board(); }
void Group::reserve(const CollectiveArgs& args) { driver_->reserve(args); }
Traffic Group::traffic(Collective collective) const { return driver_->traffic(collective); }
Traffic Group::traffic() const { return driver_->traffic(); }
int64_t Group::waited_ns() const { return driver_->waited_ns(); }
int64_t Group::scratch_bytes() const { return driver_->scratch_bytes(); }

void Group::abort(const std::string& why) {
  context_.backend.fabric().abort(context_.backend.rank(), why);
}

void Group::abort_for(int member, const std::string& why) {
  context_.backend.fabric().abort(shape_.members[size_t(member)], why);
}

}  // namespace trireme
