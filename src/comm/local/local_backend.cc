#include "comm/local/local_backend.h"

#include <algorithm>
#include <exception>
#include <thread>

#include "comm/rank_watch.h"
#include "comm/world.h"

namespace trireme {
namespace {

std::vector<RankCell*> pointers(const std::vector<std::unique_ptr<RankCell>>& cells) {
  std::vector<RankCell*> result;
  for (const auto& cell : cells) result.push_back(cell.get());
  return result;
}

std::vector<std::unique_ptr<RankCell>> make_cells(int size) {
  std::vector<std::unique_ptr<RankCell>> cells;
  for (int rank = 0; rank < size; ++rank) cells.push_back(std::make_unique<RankCell>());
  return cells;
}

}  // namespace

LocalHost::LocalHost(int size, const WorldOptions& options)
    : options_(options),
      header_(std::make_unique<FabricHeader>()),
      cells_(make_cells(size)),
      fabric_(*header_, pointers(cells_)) {
  const NodeMap nodes = options.nodes.value_or(NodeMap());
  for (int rank = 0; rank < size; ++rank) node_of_.push_back(int(nodes.node_of(rank)));
}

LocalHost::GroupMemory& LocalHost::memory_of(const GroupShape& shape) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<GroupMemory>& memory = groups_[{shape.id, shape.members[0]}];
  if (!memory) {
    memory = std::make_unique<GroupMemory>();
    memory->channels = std::make_shared<ChannelTable>(shape.size());
    for (int r = 0; r < shape.size(); ++r) memory->slots.push_back(std::make_unique<SharedSlot>());
  }
  return *memory;
}

LocalBackend::LocalBackend(LocalHost& host, int rank, Progress* shown)
    : host_(host), rank_(rank), shown_(shown) {
  // If ranks share cores, a spinning rank takes the core from the rank that it waits for.
  const int cores = int(std::thread::hardware_concurrency());
  const int ranks = host.fabric().size();
  spins_ = ranks <= cores ? 4000 : 50;
  has_core_for_thread_ = ranks * (host.options().threads_per_rank + 1) <= cores;
}

std::unique_ptr<Transport> LocalBackend::connect(const GroupShape& shape) {
  return std::make_unique<LocalTransport>(host_.fabric(), shape, host_.memory_of(shape).channels,
                                          host_.options().fault_hook);
}

std::optional<SharedView> LocalBackend::view(const GroupShape& shape) {
  const auto is_elsewhere = [&](int member) {
    return node_of()[size_t(member)] != node_of()[size_t(rank_)];
  };
  if (std::any_of(shape.members.begin(), shape.members.end(), is_elsewhere)) return std::nullopt;
  SharedView view;
  for (const auto& slot : host_.memory_of(shape).slots) view.slots.push_back(slot.get());
  view.bases.assign(size_t(shape.size()), nullptr);
  view.hook = host_.options().fault_hook;
  return view;
}

std::unique_ptr<SharedMemory> LocalBackend::allocate_shared(int64_t bytes) {
  return std::make_unique<ProcessMemory>(bytes);
}

void run_ranks(int size, const WorldOptions& options, const std::function<void(World&)>& function) {
  TRIREME_CHECK(size >= 1, "a run has at least one rank");
  LocalHost host(size, options);
  const auto live = [&](int rank) {
    try {
      LocalBackend backend(host, rank);
      World world(backend, options);
      try {
        function(world);
      } catch (const std::exception& error) {
        // Abort before the world is destroyed, because its thread may be waiting.
        abort_with(host.fabric(), rank, error);
      }
    } catch (const std::exception& error) {
      abort_with(host.fabric(), rank, error);
    }
    host.fabric().leave(rank);
  };
  const RankWatch watch(host.fabric(), 0, size, options);
  std::vector<std::thread> threads;
  for (int rank = 1; rank < size; ++rank) threads.emplace_back(live, rank);
  live(0);
  for (std::thread& thread : threads) thread.join();
  throw_first_error(host.fabric());
}

}  // namespace trireme
