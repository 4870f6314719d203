#include "store/repair.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <set>
#include <thread>

#include "base/or_list.h"
#include "store/block_reader.h"
#include "store/placement.h"
#include "store/store_status.h"

namespace trireme {
namespace {

constexpr size_t kBlocksAtOnce = 4;
constexpr uint32_t kBlocksOfAnswer = 256;

// Writes chunks of a block whose readers have ended to new servers.
class ChunkMover {
 public:
  ChunkMover(Store& store, const Overview& overview) : store_(store), overview_(overview) {}

  // Moves the chunks that have no server, and those on `drained`.
  void move(BlockReader& reader, int drained) {
    const BlockRecord& block = reader.block();
    Result<std::vector<Block>> chunks = reader.recover();
    if (!chunks.ok()) {
      totals_.lost.push_back(chunks.error().message);
      return;
    }
    std::vector<int32_t> held = block.servers;
    for (int chunk = 0; chunk < int(held.size()); ++chunk) {
      const int32_t from = held[size_t(chunk)];
      if (from == kNoServer || from == drained) {
        move_chunk(block, chunk, (*chunks)[size_t(chunk)], held);
      }
    }
  }

  Status commit() {
    if (moves_.empty()) return Done{};
    MetadataCommand place{.kind = CommandKind::Place};
    place.view = overview_.view;
    place.moves = std::exchange(moves_, {});
    return store_.change(std::move(place));
  }

  RepairTotals& totals() { return totals_; }

 private:
  void move_chunk(const BlockRecord& block, int chunk, const Block& bytes,
                  std::vector<int32_t>& held) {
    const std::vector<int> servers =
        servers_for_block(overview_, store_.usable(), block.id, block.chunk_bytes, held);
    for (const int server : servers) {
      const Status status =
          store_.target(server)->write({block.id, chunk}, bytes.bytes, bytes.checksum);
      if (!status.ok()) continue;
      moves_.push_back({block.id, chunk, held[size_t(chunk)], server});
      held[size_t(chunk)] = server;
      overview_.bytes_of_server[size_t(server)] += block.chunk_bytes;
      ++totals_.num_repaired;
      totals_.bytes += block.chunk_bytes;
      return;
    }
    ++totals_.num_waiting;
  }

  Store& store_;
  Overview overview_;
  std::vector<Move> moves_;
  RepairTotals totals_;
};

// Calls `visit` with the blocks that answer the question, a few read ahead.
Status for_each_block(Store& store, QuestionKind kind,
                      const std::function<bool(const BlockRecord&)>& is_wanted,
                      const std::function<Status(BlockReader&)>& visit,
                      const std::function<Status()>& after_answer) {
  MetadataQuestion question{.kind = kind, .most = kBlocksOfAnswer};
  std::deque<std::shared_ptr<BlockReader>> ahead;
  const auto visit_oldest = [&]() -> Status {
    const std::shared_ptr<BlockReader> reader = ahead.front();
    ahead.pop_front();
    reader->wait_for_all();
    return visit(*reader);
  };
  for (;;) {
    TRIREME_TRY(answer, store.ask(question));
    if (answer.blocks.empty()) return Done{};
    question.number = answer.blocks.back().id;
    for (const BlockRecord& block : answer.blocks) {
      if (!is_wanted(block)) continue;
      ahead.push_back(BlockReader::start_all(store, block));
      if (ahead.size() >= kBlocksAtOnce) TRIREME_TRY_DONE(visit_oldest());
    }
    while (!ahead.empty()) TRIREME_TRY_DONE(visit_oldest());
    TRIREME_TRY_DONE(after_answer());
  }
}

Status note_all(Store& store, std::vector<Move>& losses) {
  return note_losses(store, std::exchange(losses, {}));
}

// Returns every chunk that the metadata name, with its server.
Result<std::set<Garbage>> known_chunks(Store& store) {
  std::set<Garbage> known;
  MetadataQuestion question{.kind = QuestionKind::Blocks, .most = kBlocksOfAnswer};
  for (;;) {
    TRIREME_TRY(answer, store.ask(question));
    if (answer.blocks.empty()) return known;
    question.number = answer.blocks.back().id;
    for (const BlockRecord& block : answer.blocks) {
      for (int chunk = 0; chunk < int(block.servers.size()); ++chunk) {
        known.insert({block.servers[size_t(chunk)], block.id, chunk});
      }
    }
  }
}

// Removes files of chunks that no block has, and of chunks that were not written to their end.
// Other clients may write to a shared store meanwhile, so the order of the questions matters:
// chunks, then writers, then blocks. A listed chunk that is needed belongs to a writer that is
// still known, or its block was sealed before the blocks are asked for.
Result<int64_t> remove_orphans(Store& store) {
  int64_t num_removed = 0;
  std::vector<Garbage> listed;
  for (int server = 0; server < store.num_servers(); ++server) {
    ChunkTarget* const target = store.target(server);
    if (target == nullptr) continue;
    const Result<int64_t> unfinished = target->remove_unfinished();
    num_removed += unfinished.ok() ? *unfinished : 0;
    const Result<std::vector<ChunkName>> names = target->list();
    if (!names.ok()) continue;
    for (const ChunkName& name : *names) listed.push_back({server, name.block, name.chunk});
  }
  TRIREME_TRY(overview, store.overview());
  const std::set<uint64_t> writers(overview.open_tokens.begin(), overview.open_tokens.end());
  TRIREME_TRY(known, known_chunks(store));
  for (const Garbage& chunk : listed) {
    if (known.contains(chunk) || writers.contains(token_of_block(chunk.block))) continue;
    num_removed += store.target(chunk.server)->remove({chunk.block, chunk.chunk}).ok() ? 1 : 0;
  }
  return num_removed;
}

Result<int> find_server(const Overview& overview, const std::string& name) {
  std::vector<std::string> names;
  for (int server = 0; server < int(overview.servers.size()); ++server) {
    const ServerRecord& record = overview.servers[size_t(server)];
    if (record.name == name || record.address == name) return server;
    names.push_back(record.name);
  }
  return usage(
      fmt::format("no server of the store is called {}: there are {}", name, or_list(names)));
}

// A disk is new if its folder is empty. That may also be a folder without its disk. So the disks
// are taken in only if everything can be recovered without the old ones, or if the caller asks.
Status take_in_new_disks(Store& store) {
  if (!store.has_new_disks()) return Done{};
  TRIREME_TRY(health, health_of(store));
  if (health.bytes_lost > 0 && !store.takes_new_disks()) return Done{};
  return store.take_in_new_disks();
}

// Watches the writers of a shared store for the time of a lease. Those that have neither ended nor
// renewed their tokens since are dead, and their tokens end: such a writer cannot commit any more.
class DeadWriters {
 public:
  explicit DeadWriters(const Store& store) : lease_(Deadline::after(store.lease_s())) {}

  Status begin(Store& store) {
    if (!store.is_shared()) return Done{};
    TRIREME_TRY(overview, store.overview());
    seen_ = writers_of(overview);
    return Done{};
  }
  // Waits for the end of the lease, unless all writers have shown before that they are alive.
  Status end(Store& store) {
    while (!seen_.empty()) {
      TRIREME_TRY(overview, store.overview());
      const Writers now = writers_of(overview);
      std::erase_if(seen_, [&](const auto& writer) { return !now.contains(writer); });
      if (seen_.empty() || lease_.left_ms() == 0) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(std::min(lease_.left_ms(), 200)));
    }
    if (seen_.empty()) return Done{};
    MetadataCommand abort{.kind = CommandKind::Abort};
    for (const auto& [token, renewals] : std::exchange(seen_, {})) abort.tokens.push_back(token);
    return store.change(std::move(abort));
  }

 private:
  using Writers = std::set<std::pair<uint64_t, uint64_t>>;  // tokens and their renewals

  static Writers writers_of(const Overview& overview) {
    Writers writers;
    for (size_t writer = 0; writer < overview.open_tokens.size(); ++writer) {
      writers.insert({overview.open_tokens[writer], overview.renewals[writer]});
    }
    return writers;
  }

  const Deadline lease_;
  Writers seen_;
};

Status set_state(Store& store, int server, ServerState state) {
  TRIREME_TRY(overview, store.overview());
  ServerRecord record = overview.servers[size_t(server)];
  record.state = state;
  MetadataCommand change{.kind = CommandKind::Server};
  change.servers.push_back(record);
  change.server_index = server;
  return store.change(std::move(change));
}

}  // namespace

Status note_losses(Store& store, const std::vector<Move>& losses) {
  if (losses.empty()) return Done{};
  MetadataCommand lose{.kind = CommandKind::Lose};
  lose.moves = losses;
  return store.change(std::move(lose));
}

Result<RepairTotals> repair(Store& store) {
  TRIREME_TRY(overview, store.overview());
  ChunkMover mover(store, overview);
  std::vector<Move> losses;
  TRIREME_TRY_DONE(for_each_block(
      store, QuestionKind::Queue, [](const BlockRecord&) { return true; },
      [&](BlockReader& reader) -> Status {
        const std::vector<Move> found = reader.losses();
        losses.insert(losses.end(), found.begin(), found.end());
        mover.move(reader, /*drained=*/-2);
        return Done{};
      },
      [&]() -> Status {
        TRIREME_TRY_DONE(mover.commit());
        return note_all(store, losses);
      }));
  return std::move(mover.totals());
}

Result<ScrubTotals> scrub_store(Store& store) {
  ScrubTotals totals;
  TRIREME_TRY_DONE(take_in_new_disks(store));
  DeadWriters dead_writers(store);
  TRIREME_TRY_DONE(dead_writers.begin(store));
  std::vector<Move> losses;
  TRIREME_TRY_DONE(for_each_block(
      store, QuestionKind::Blocks, [](const BlockRecord&) { return true; },
      [&](BlockReader& reader) -> Status {
        const BlockRecord& block = reader.block();
        for (int chunk = 0; chunk < int(block.servers.size()); ++chunk) {
          if (block.servers[size_t(chunk)] == kNoServer) continue;
          const ChunkState state = reader.outcome(chunk).state;
          ++totals.num_chunks;
          totals.num_damaged += state == ChunkState::Damaged ? 1 : 0;
          totals.num_missing += state == ChunkState::Missing ? 1 : 0;
          totals.num_unreadable += state == ChunkState::Unreadable ? 1 : 0;
        }
        const std::vector<Move> found = reader.losses();
        losses.insert(losses.end(), found.begin(), found.end());
        return Done{};
      },
      [&] { return note_all(store, losses); }));
  // A block whose chunk turned out to be lost while it was repaired is in the queue again.
  TRIREME_TRY(repaired, repair(store));
  totals.repaired = std::move(repaired);
  TRIREME_TRY_DONE(store.collect_garbage());
  TRIREME_TRY_DONE(dead_writers.end(store));
  TRIREME_TRY(num_orphans, remove_orphans(store));
  totals.num_orphans = num_orphans;
  return totals;
}

Result<RepairTotals> drain_server(Store& store, const std::string& name) {
  TRIREME_TRY(before, store.overview());
  TRIREME_TRY(server, find_server(before, name));
  TRIREME_TRY_DONE(set_state(store, server, ServerState::Draining));
  TRIREME_TRY(overview, store.overview());
  ChunkMover mover(store, overview);
  TRIREME_TRY_DONE(for_each_block(
      store, QuestionKind::Blocks,
      [&](const BlockRecord& block) { return std::ranges::count(block.servers, server) > 0; },
      [&](BlockReader& reader) -> Status {
        mover.move(reader, server);
        return Done{};
      },
      [&] { return mover.commit(); }));
  TRIREME_TRY_DONE(store.collect_garbage());
  RepairTotals totals = std::move(mover.totals());
  if (!totals.lost.empty()) return damaged(totals.lost.front());
  if (totals.num_waiting > 0) {
    return infeasible(fmt::format(
        "{} chunks stay on {}: each other server has a chunk of their block already or cannot be "
        "written; make the others writable, or put the files into a store of more than {} folders",
        totals.num_waiting, name, store.code().num_chunks()));
  }
  TRIREME_TRY_DONE(set_state(store, server, ServerState::Drained));
  return totals;
}

}  // namespace trireme
