#include "observe/host_clocks.h"

#include <algorithm>
#include <map>

#include "base/clock.h"

namespace trireme {
namespace {

std::vector<int64_t> gather_number(Group& world, int64_t number) {
  std::vector<int64_t> numbers(size_t(world.size()));
  world.all_gather({&number, DType::I64, Shape{1}},
                   {numbers.data(), DType::I64, Shape{int64_t(numbers.size())}});
  return numbers;
}

}  // namespace

std::vector<int64_t> host_clocks(Engine& engine) {
  Group& world = engine.world();
  world.barrier();
  std::vector<int64_t> clocks = gather_number(world, monotonic_ns());
  std::map<int, int64_t> of_node;
  for (size_t rank = 0; rank < clocks.size(); ++rank) {
    clocks[rank] = of_node.try_emplace(engine.node_of()[rank], clocks[rank]).first->second;
  }
  return clocks;
}

int64_t earliest_ns(Engine& engine, int64_t own_ns) {
  const std::vector<int64_t> clocks = host_clocks(engine);
  const int64_t own_clock = clocks[size_t(engine.world().rank())];
  const int64_t since = own_ns == INT64_MAX ? INT64_MAX : own_ns - own_clock;
  const std::vector<int64_t> all = gather_number(engine.world(), since);
  const int64_t earliest = *std::min_element(all.begin(), all.end());
  return earliest == INT64_MAX ? own_clock : own_clock + earliest;
}

}  // namespace trireme
