#include "calibrate/measure_links.h"

#include <algorithm>

#include "calibrate/measure_collective.h"
#include "comm/calibrate_comm.h"
#include "comm/group_driver.h"
#include "comm/world.h"
#include "device/core_binding.h"

namespace trireme {
namespace {

constexpr int kMostRanks = 8;  // of larger groups these tell enough
constexpr Collective kOfLayers[] = {Collective::AllReduce, Collective::AllGather,
                                    Collective::ReduceScatter};
constexpr Algorithm kWithMessages[] = {Algorithm::Ring, Algorithm::Tree, Algorithm::Doubling,
                                       Algorithm::HalvingDoubling};
constexpr int64_t kCounts[] = {int64_t{1} << 14, int64_t{1} << 17, int64_t{1} << 20};  // of fp32
constexpr int64_t kMessageCounts[] = {64, int64_t{1} << 14, int64_t{1} << 18};

double sent_bytes_of(World& world, const CollectiveCase& c) {
  CollectiveRun run(world, world.group(), c);
  int64_t bytes = world.group().driver().predict(run.args()).sent_bytes;
  world.group().all_reduce({&bytes, DType::I64, Shape{1}}, ReduceOp::Max);
  return double(bytes);
}

// All ranks measure the same rows.
MeasuredOperators measure_world(World& world) {
  MeasuredOperators measured;
  const int ranks = world.size();
  const double call_bytes = sent_bytes_of(world, {.count = kShortCallCount});
  measured.collectives.push_back({ranks, call_bytes, time_short_call(world)});
  for (const Collective collective : kOfLayers) {
    for (const int64_t count : kCounts) {
      const CollectiveCase c{.collective = collective, .count = count};
      const double sent_bytes = sent_bytes_of(world, c);
      const double seconds = measure_collective(world, c, true).seconds_best;
      measured.collectives.push_back({ranks, sent_bytes, seconds});
    }
  }
  for (const Algorithm algorithm : kWithMessages) {
    for (const int64_t count : kMessageCounts) {
      const CollectiveCase c{.algorithm = algorithm, .count = count};
      const double seconds = measure_collective(world, c, true).seconds_best;
      const PlanRequest request{.algorithm = algorithm, .size = ranks, .count = count};
      measured.messages.push_back({request, size_of(c.dtype), seconds});
    }
  }
  return measured;
}

}  // namespace

MeasuredLinks measure_links(int most_ranks, MeasuredOperators& measured) {
  MeasuredLinks links;
  for (int ranks = 2; ranks <= std::clamp(most_ranks, 2, kMostRanks); ranks *= 2) {
    run_ranks(ranks, {}, [&](World& world) {
      const CoreBinding binding(world.rank(), ranks, 1);
      const CommCost of_world = calibrate_comm(world);
      const double short_s = time_short_call(world);
      const double background_s = std::max(0.0, time_background_call(world) - short_s);
      const double core_s = core_seconds_per_byte(world);
      const MeasuredOperators rows = measure_world(world);
      if (world.rank() != 0) return;
      if (ranks == 2) links = {of_world, background_s, core_s};
      for (const MeasuredCollective& row : rows.collectives) measured.collectives.push_back(row);
      for (const MeasuredMessages& row : rows.messages) measured.messages.push_back(row);
    });
  }
  return links;
}

}  // namespace trireme
