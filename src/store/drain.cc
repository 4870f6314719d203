// Moves all chunks of a server away, and takes it back.

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "store/placement.h"
#include "store/repair.h"
#include "store/store_status.h"
#include "store/visit_blocks.h"

namespace trireme {
namespace {

Status set_state(Store& store, int server, ServerState state) {
  TRIREME_TRY(overview, store.overview());
  ServerRecord record = overview.servers[size_t(server)];
  record.state = state;
  MetadataCommand change{.kind = CommandKind::Server};
  change.servers.push_back(record);
  change.server_index = server;
  return store.change(std::move(change));
}

Error chunks_stay(const Store& store, int64_t num_chunks, const std::string& name) {
  return infeasible(fmt::format(
      "{} chunks have no other place than {}, so it is not drained and stays in use: each other "
      "server has a chunk of their block already or cannot be written; make the others writable, "
      "or put the files into a store of more than {} servers",
      num_chunks, name, store.code().num_chunks()));
}

// Returns the number of chunks of the server for which no other server is left.
Result<int64_t> chunks_without_place(Store& store, Overview overview, int server) {
  overview.servers[size_t(server)].state = ServerState::Draining;
  int64_t num_chunks = 0;
  TRIREME_TRY_DONE(
      for_each_block(store, QuestionKind::Blocks, [&](const BlockRecord& block) -> Status {
        if (std::ranges::count(block.servers, server) == 0) return Done{};
        const size_t num_wanted = chunks_to_move(block, {server}).size();
        std::vector<int> places =
            servers_for_block(overview, store.usable(), block.id, block.chunk_bytes, block.servers);
        num_chunks += places.size() < num_wanted ? 1 : 0;
        places.resize(std::min(places.size(), num_wanted));
        for (const int place : places) {
          overview.bytes_of_server[size_t(place)] += block.chunk_bytes;
        }
        return Done{};
      }));
  return num_chunks;
}

Result<RepairTotals> move_all(Store& store, int server, const OnProgress& on_progress) {
  TRIREME_TRY(overview, store.overview());
  ChunkMover mover(store, overview);
  UpkeepMeter meter(store, UpkeepKind::Drain, uint64_t(overview.chunks_of_server[size_t(server)]),
                    on_progress);
  const Status visit = for_each_block(
      store, QuestionKind::Blocks,
      [&](const BlockRecord& block) -> Status {
        if (std::ranges::count(block.servers, server) == 0) return Done{};
        mover.add(block, chunks_to_move(block, {server}));
        return meter.step(mover.begun_bytes());
      },
      [&] { return mover.commit(); });
  TRIREME_TRY_DONE(mover.commit_after(visit));
  TRIREME_TRY_DONE(store.collect_garbage());
  return std::move(mover.totals());
}

}  // namespace

Result<RepairTotals> drain_server(Store& store, const std::string& name,
                                  const OnProgress& on_progress) {
  TRIREME_TRY(before, store.overview());
  TRIREME_TRY(server, find_server(before, name));
  TRIREME_TRY(num_staying, chunks_without_place(store, before, server));
  if (num_staying > 0) return chunks_stay(store, num_staying, name);
  const ServerState state_before = before.servers[size_t(server)].state;
  TRIREME_TRY_DONE(set_state(store, server, ServerState::Draining));
  Result<RepairTotals> totals = move_all(store, server, on_progress);
  std::optional<Error> refused;
  if (!totals.ok()) {
    refused = totals.error();
  } else if (!totals->lost.empty()) {
    refused = damaged(totals->lost.front());
  } else if (totals->num_waiting > 0) {
    refused = chunks_stay(store, totals->num_waiting, name);
  }
  if (!refused) {
    TRIREME_TRY_DONE(set_state(store, server, ServerState::Drained));
    return totals;
  }
  const Status restored = set_state(store, server, state_before);
  if (restored.ok()) return *refused;
  return Error{
      refused->kind,
      fmt::format("{}; {} still takes no new chunks ({}), so take it back with: trireme "
                  "store drain --cancel {} {}",
                  refused->message, name, restored.error().message, name, store.file().name)};
}

Status cancel_drain(Store& store, const std::string& name) {
  TRIREME_TRY(overview, store.overview());
  TRIREME_TRY(server, find_server(overview, name));
  if (overview.servers[size_t(server)].state == ServerState::Active) {
    return usage(name + " is active; there is nothing to cancel");
  }
  return set_state(store, server, ServerState::Active);
}

}  // namespace trireme
