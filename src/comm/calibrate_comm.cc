#include "comm/calibrate_comm.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "base/order_statistics.h"
#include "comm/reduce.h"

namespace trireme {
namespace {

constexpr int64_t kLongCount = int64_t{1} << 20;
constexpr int64_t kWorkCount = int64_t{1} << 16;
constexpr int kMostRepeats = 9;
constexpr double kRepeatsEnd_s = 0.2;  // no repeat begins later than this
constexpr int kCalls = 20;
constexpr double kLeastCall_s = 1e-7;

// Measures several times, equally often on every rank. If other programs use the cores, a message
// may take as long as their time slices, so rank 0 ends the repeats by its clock. Ranks that take
// no part in the measurement wait for one repeat at a time.
template <typename Measure>
void repeat_together(Group& group, Measure&& measure) {
  const int64_t begin = monotonic_ns();
  int64_t goes_on = 1;
  for (int repeat = 1; goes_on == 1; ++repeat) {
    measure();
    goes_on = repeat < kMostRepeats && seconds_since(begin) < kRepeatsEnd_s ? 1 : 0;
    group.broadcast({&goes_on, DType::I64, Shape{1}}, 0);
  }
}

// Returns the seconds of one message of x from rank 0 to `peer` or back. All ranks call it.
double ping_pong(Group& group, int peer, TensorRef x, int rounds) {
  std::vector<double> seconds;
  repeat_together(group, [&] {
    const int64_t begin = monotonic_ns();
    for (int i = 0; i < rounds; ++i) {
      if (group.rank() == 0) {
        group.send(x, peer);
        group.recv(x, peer);
      } else if (group.rank() == peer) {
        group.recv(x, 0);
        group.send(x, 0);
      }
    }
    seconds.push_back(seconds_since(begin) / (2.0 * rounds));
  });
  return lower_quartile(std::move(seconds));
}

LinkCost measure_link(Group& group, int peer, std::vector<float>& x) {
  const double short_s = ping_pong(group, peer, {x.data(), DType::F32, Shape{2}}, 50);
  const double long_s = ping_pong(group, peer, {x.data(), DType::F32, Shape{kLongCount}}, 2);
  const double bytes = double(kLongCount * 4);
  return {short_s, std::max(1e-13, (long_s - short_s) / bytes)};
}

}  // namespace

CommCost calibrate_comm(World& world) {
  Group& group = world.group();
  std::vector<float> x(static_cast<size_t>(kLongCount), 1.0f);
  std::vector<float> y(static_cast<size_t>(kLongCount), 1.0f);
  CommCost cost;
  std::vector<double> adding;
  for (int repeat = 0; repeat < kMostRepeats; ++repeat) {
    const int64_t begin = monotonic_ns();
    reduce_pair(DType::F32, ReduceOp::Sum, y.data(), y.data(), x.data(), kLongCount);
    adding.push_back(seconds_since(begin));
  }
  cost.gamma_s_per_byte = upper_median(adding) / double(kLongCount * 4);
  int inside = -1;
  int across = -1;
  for (int r = world.size() - 1; r > 0; --r) {
    (world.node_of()[size_t(r)] == world.node_of()[0] ? inside : across) = r;
  }
  if (inside > 0) cost.inside = measure_link(group, inside, x);
  if (across > 0) cost.across = measure_link(group, across, x);
  // All ranks take rank 0's numbers, so that all choose the same algorithms. They are sent as bits,
  // because fp64 has no reductions.
  double numbers[5] = {cost.inside.alpha_s, cost.inside.beta_s_per_byte, cost.across.alpha_s,
                       cost.across.beta_s_per_byte, cost.gamma_s_per_byte};
  group.broadcast({numbers, DType::F64, Shape{5}}, 0);
  return {{numbers[0], numbers[1]}, {numbers[2], numbers[3]}, numbers[4]};
}

namespace {

// Each call stands behind a little work, at whose end ranks do not arrive together.
template <typename Call>
double time_calls(World& world, Call&& make_call) {
  Group& group = world.group();
  std::vector<float> x(kShortCallCount, 1.0f), y(kWorkCount, 1.0f);
  const auto seconds_of = [&](bool calls) {
    group.barrier();
    const int64_t begin = monotonic_ns();
    for (int call = 0; call < kCalls; ++call) {
      reduce_pair(DType::F32, ReduceOp::Mean, y.data(), y.data(), y.data(), kWorkCount);
      if (calls) make_call(group, TensorRef{x.data(), DType::F32, Shape{kShortCallCount}});
    }
    return seconds_since(begin);
  };
  std::vector<double> working, calling;
  repeat_together(group, [&] {
    working.push_back(seconds_of(false));
    calling.push_back(seconds_of(true));
  });
  const double calls_s = upper_median(std::move(calling)) - upper_median(std::move(working));
  double of_call = std::max(kLeastCall_s, calls_s / kCalls);
  group.broadcast({&of_call, DType::F64, Shape{1}}, 0);
  return of_call;
}

}  // namespace

double time_short_call(World& world) {
  return time_calls(world, [](Group& group, TensorRef x) { group.all_reduce(x, ReduceOp::Mean); });
}

double time_background_call(World& world) {
  return time_calls(world, [](Group& group, TensorRef x) {
    group.start({.in = x, .out = x, .op = ReduceOp::Mean}).wait();
  });
}

namespace {

double processor_s(clockid_t clock) {
  timespec time = {};
  clock_gettime(clock, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

// Measures the processor time of those threads of a process that do not call this: the threads of
// communication. Several ranks may be threads of one process.
class OtherThreads {
 public:
  explicit OtherThreads(World& world) : group_(world.group()) {
    int64_t own = getpid();
    std::vector<int64_t> processes(size_t(group_.size()));
    group_.all_gather({&own, DType::I64, Shape{1}},
                      {processes.data(), DType::I64, Shape{group_.size()}});
    const std::vector<int>& nodes = world.node_of();
    for (int rank = 0; rank < group_.size(); ++rank) {
      is_here_.push_back(processes[size_t(rank)] == own &&
                         nodes[size_t(rank)] == nodes[size_t(group_.rank())]);
    }
  }

  // Returns the seconds of one rank while all ranks make this call.
  template <typename Call>
  double seconds_of(Call&& call) {
    group_.barrier();
    const double process_s = processor_s(CLOCK_PROCESS_CPUTIME_ID);
    const double thread_s = processor_s(CLOCK_THREAD_CPUTIME_ID);
    call();
    group_.barrier();
    const double all_s = processor_s(CLOCK_PROCESS_CPUTIME_ID) - process_s;
    double own_s = processor_s(CLOCK_THREAD_CPUTIME_ID) - thread_s;
    std::vector<double> of_ranks(is_here_.size());
    group_.all_gather({&own_s, DType::F64, Shape{1}},
                      {of_ranks.data(), DType::F64, Shape{group_.size()}});
    double calling_s = 0.0, num_here = 0.0;
    for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
      calling_s += is_here_[rank] ? of_ranks[rank] : 0.0;
      num_here += is_here_[rank] ? 1.0 : 0.0;
    }
    return std::max(0.0, all_s - calling_s) / num_here;
  }

 private:
  Group& group_;
  std::vector<bool> is_here_;  // [rank] in this process
};

}  // namespace

double core_seconds_per_byte(World& world) {
  Group& group = world.group();
  if (group.size() == 1) return 0.0;
  const int64_t count = kLongCount / group.size() * group.size();
  std::vector<float> in(size_t(count), 1.0f), out(size_t(count), 1.0f);
  OtherThreads threads(world);
  std::vector<double> seconds;
  repeat_together(group, [&] {
    seconds.push_back(threads.seconds_of([&] {
      group
          .start({.collective = Collective::AllToAll,
                  .in = {in.data(), DType::F32, Shape{count}},
                  .out = {out.data(), DType::F32, Shape{count}}})
          .wait();
    }));
  });
  const double sent_bytes = double(count * 4) * (1.0 - 1.0 / group.size());
  double per_byte = upper_median(std::move(seconds)) / sent_bytes;
  group.broadcast({&per_byte, DType::F64, Shape{1}}, 0);
  return per_byte;
}

int neighbours_per_node(const std::vector<int>& node_of) {
  const auto differs = [&](int node) { return node != node_of[0]; };
  const auto length = std::find_if(node_of.begin(), node_of.end(), differs) - node_of.begin();
  for (int64_t r = 0; r < std::ssize(node_of); ++r) {
    if (node_of[size_t(r)] != node_of[size_t(r - r % length)]) return 1;
    if (r >= length && r % length == 0 && node_of[size_t(r)] == node_of[size_t(r - 1)]) return 1;
  }
  return static_cast<int>(length);
}

MeasuredCalls measure_calls(World& world) {
  if (world.size() == 1) return {};
  const double call_s = time_short_call(world);
  const double background_call_s = time_background_call(world);
  const CommCost cost = calibrate_comm(world);
  const auto link = [](double latency_s, const LinkCost& measured) {
    if (measured.beta_s_per_byte <= 0.0) return LinkSpec{};
    return LinkSpec{latency_s, 1.0 / measured.beta_s_per_byte};
  };
  const std::vector<int>& nodes = world.node_of();
  const bool is_one_node = std::count(nodes.begin(), nodes.end(), nodes[0]) == world.size();
  return {neighbours_per_node(nodes), link(is_one_node ? call_s : cost.inside.alpha_s, cost.inside),
          is_one_node ? LinkSpec{} : link(call_s, cost.across),
          std::max(0.0, background_call_s - call_s), core_seconds_per_byte(world)};
}

}  // namespace trireme
