#include "comm/calibrate_comm.h"

#include <algorithm>
#include <vector>

#include "comm/reduce.h"

namespace trireme {
namespace {

constexpr int64_t kLongCount = int64_t{1} << 20;
constexpr int64_t kWorkCount = int64_t{1} << 16;
constexpr int kRepeats = 9;
constexpr int kCalls = 20;
constexpr double kLeastCall_s = 1e-7;

double seconds_since(int64_t begin_ns) { return double(steady_now_ns() - begin_ns) * 1e-9; }

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Returns the seconds of one message of `count` floats from rank 0 to `peer` or back.
double ping_pong(Group& group, int peer, TensorRef x, int rounds) {
  std::vector<double> seconds;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const int64_t begin = steady_now_ns();
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
  }
  return median(std::move(seconds));
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
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const int64_t begin = steady_now_ns();
    reduce_pair(DType::F32, ReduceOp::Sum, y.data(), y.data(), x.data(), kLongCount);
    adding.push_back(seconds_since(begin));
  }
  cost.gamma_s_per_byte = median(adding) / double(kLongCount * 4);
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

double time_short_call(World& world) {
  Group& group = world.group();
  std::vector<float> x(kShortCallCount, 1.0f), y(kWorkCount, 1.0f);
  const auto seconds_of = [&](bool calls) {
    group.barrier();
    const int64_t begin = steady_now_ns();
    for (int call = 0; call < kCalls; ++call) {
      reduce_pair(DType::F32, ReduceOp::Mean, y.data(), y.data(), y.data(), kWorkCount);
      if (calls) group.all_reduce({x.data(), DType::F32, Shape{kShortCallCount}}, ReduceOp::Mean);
    }
    return seconds_since(begin);
  };
  std::vector<double> working, calling;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    working.push_back(seconds_of(false));
    calling.push_back(seconds_of(true));
  }
  const double calls_s = median(std::move(calling)) - median(std::move(working));
  double of_call = std::max(kLeastCall_s, calls_s / kCalls);
  group.broadcast({&of_call, DType::F64, Shape{1}}, 0);
  return of_call;
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
  const CommCost cost = calibrate_comm(world);
  const auto link = [](double latency_s, const LinkCost& measured) {
    if (measured.beta_s_per_byte <= 0.0) return LinkSpec{};
    return LinkSpec{latency_s, 1.0 / measured.beta_s_per_byte};
  };
  const std::vector<int>& nodes = world.node_of();
  const bool is_one_node = std::count(nodes.begin(), nodes.end(), nodes[0]) == world.size();
  return {neighbours_per_node(nodes), link(is_one_node ? call_s : cost.inside.alpha_s, cost.inside),
          is_one_node ? LinkSpec{} : link(call_s, cost.across)};
}

}  // namespace trireme
