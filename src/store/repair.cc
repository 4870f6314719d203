#include "store/repair.h"

#include <algorithm>

#include "store/store_status.h"
#include "store/visit_blocks.h"

namespace trireme {

Status note_losses(Store& store, const std::vector<Move>& losses) {
  if (losses.empty()) return Done{};
  MetadataCommand lose{.kind = CommandKind::Lose};
  lose.moves = losses;
  return store.change(std::move(lose));
}

// A disk is new if its folder is empty. That may also be a folder without its disk. So the disks
// are taken in only if everything can be recovered without the old ones, or if the caller asks.
Status take_in_new_disks(Store& store) {
  if (!store.has_new_disks()) return Done{};
  TRIREME_TRY(health, health_of(store));
  if (health.bytes_lost > 0 && !store.takes_new_disks()) return Done{};
  return store.take_in_new_disks();
}

Result<RepairTotals> repair(Store& store, const OnProgress& on_progress) {
  TRIREME_TRY_DONE(take_in_new_disks(store));
  return repair_queue(store, on_progress);
}

Result<RepairTotals> repair_queue(Store& store, const OnProgress& on_progress) {
  TRIREME_TRY(overview, store.overview());
  ChunkMover mover(store, overview);
  UpkeepMeter meter(store, UpkeepKind::Repair, overview.num_incomplete, on_progress);
  const Status visit = for_each_block(
      store, QuestionKind::Queue,
      [&](const BlockRecord& block) -> Status {
        mover.add(block, chunks_to_move(block, {}));
        return meter.step(mover.begun_bytes());
      },
      [&]() -> Status {
        TRIREME_TRY_DONE(mover.commit());
        return note_losses(store, mover.take_losses());
      });
  TRIREME_TRY_DONE(mover.commit_after(visit));
  return std::move(mover.totals());
}

Result<RepairTotals> move_from_lost_servers(Store& store, const std::vector<int>& lost,
                                            const OnProgress& on_progress) {
  TRIREME_TRY(overview, store.overview());
  ChunkMover mover(store, overview);
  uint64_t num_chunks = 0;
  for (const int server : lost) num_chunks += uint64_t(overview.chunks_of_server[size_t(server)]);
  UpkeepMeter meter(store, UpkeepKind::Repair, num_chunks, on_progress);
  const auto has_chunk_there = [&](int32_t server) { return std::ranges::count(lost, server) > 0; };
  const Status visit = for_each_block(
      store, QuestionKind::Blocks,
      [&](const BlockRecord& block) -> Status {
        if (std::ranges::none_of(block.servers, has_chunk_there)) return Done{};
        mover.add(block, chunks_to_move(block, lost));
        return meter.step(mover.begun_bytes());
      },
      [&] { return mover.commit(); });
  TRIREME_TRY_DONE(mover.commit_after(visit));
  return std::move(mover.totals());
}

}  // namespace trireme
