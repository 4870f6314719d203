// Counts the bytes that a group has moved, and those that a call would move.
#include "comm/group_driver.h"

namespace trireme {

Traffic& Traffic::operator+=(const Traffic& other) {
  sent_bytes += other.sent_bytes;
  received_bytes += other.received_bytes;
  sent_messages += other.sent_messages;
  received_messages += other.received_messages;
  waited_ns += other.waited_ns;
  return *this;
}

Traffic GroupDriver::traffic(Collective collective) const {
  const TrafficCounter& counter = traffic_[size_t(collective)];
  return {counter.sent_bytes.load(std::memory_order_relaxed),
          counter.received_bytes.load(std::memory_order_relaxed),
          counter.sent_messages.load(std::memory_order_relaxed),
          counter.received_messages.load(std::memory_order_relaxed)};
}

Traffic GroupDriver::traffic() const {
  Traffic sum;
  for (int c = 0; c < kNumCollectives; ++c) sum += traffic(Collective(c));
  sum.waited_ns = waited_ns();
  return sum;
}

int GroupDriver::rounds(const CollectiveArgs& args) {
  const int64_t count = full_count(args);
  const Algorithm algorithm = resolve(args);
  if (algorithm == Algorithm::Native || size() == 1) return 0;
  CommPlan unequal;
  if (algorithm != Algorithm::Shared) return plan_of(args, count, unequal).rounds;
  const bool eager = count >= 0 && count * size_of(args.in.dtype) <= kEagerBytes;
  return eager ? 1 : 2;
}

Traffic GroupDriver::predict(const CollectiveArgs& args) {
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
    CommPlan unequal;
    moved = traffic_of(plan_of(args, count, unequal));
  }
  return {moved.sent * element, moved.received * element, moved.sent_messages,
          moved.received_messages};
}

}  // namespace trireme
