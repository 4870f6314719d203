#include "calibrate/measure_collective.h"

#include <algorithm>
#include <utility>

#include "base/order_statistics.h"
#include "comm/group_driver.h"

namespace trireme {
namespace {

// Returns the time of the slowest rank for each repeat. Short calls are timed in batches of about 2
// ms.
std::vector<double> time_calls(Group& group, CollectiveRun& run) {
  group.barrier();
  int64_t once_ns = steady_now_ns();
  run.run();
  once_ns = steady_now_ns() - once_ns;
  group.all_reduce({&once_ns, DType::I64, Shape{1}}, ReduceOp::Max);
  const int batch = int(std::clamp<int64_t>(2'000'000 / std::max<int64_t>(once_ns, 1), 1, 200));
  const int repeats = once_ns > 20'000'000 ? 7 : 15;
  std::vector<int64_t> mine;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    group.barrier();
    const int64_t begin = steady_now_ns();
    for (int i = 0; i < batch; ++i) run.run();
    mine.push_back((steady_now_ns() - begin) / batch);
  }
  group.all_reduce({mine.data(), DType::I64, Shape{int64_t(mine.size())}}, ReduceOp::Max);
  std::vector<double> seconds;
  for (int64_t ns : mine) seconds.push_back(double(ns) * 1e-9);
  return seconds;
}

CollectiveSample sample_of(const std::vector<double>& seconds, bool correct, std::string wrong) {
  return {upper_median(seconds), *std::min_element(seconds.begin(), seconds.end()), correct,
          std::move(wrong)};
}

}  // namespace

CollectiveSample measure_collective(World& world, const CollectiveCase& c, bool visible) {
  Group& group = world.group();
  CollectiveRun run(world, group, c, visible);
  run.fill();
  if (c.algorithm == Algorithm::Native) {
    const std::vector<double> seconds = group.driver().time_native(run.args(), 1);
    const std::string wrong = run.verify();
    return sample_of(group.driver().time_native(run.args(), 15), wrong.empty(), wrong);
  }
  run.run();
  const std::string wrong = run.verify();
  int64_t num_wrong = wrong.empty() ? 0 : 1;
  group.all_reduce({&num_wrong, DType::I64, Shape{1}});
  return sample_of(time_calls(group, run), num_wrong == 0, wrong);
}

}  // namespace trireme
