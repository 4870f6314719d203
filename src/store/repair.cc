#include "store/repair.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <set>
#include <thread>
#include <utility>

#include "store/block_reader.h"
#include "store/store_status.h"

namespace trireme {
namespace {

constexpr size_t kBlocksAtOnce = 4;
constexpr uint32_t kBlocksOfAnswer = 256;

// Calls `visit` with the blocks that answer the question, and `after_answer` after each part of the
// answer.
Status for_each_block(Store& store, QuestionKind kind,
                      const std::function<Status(const BlockRecord&)>& visit,
                      const std::function<Status()>& after_answer) {
  MetadataQuestion question{.kind = kind, .most = kBlocksOfAnswer};
  for (;;) {
    TRIREME_TRY(answer, store.ask(question));
    if (answer.blocks.empty()) return Done{};
    question.number = answer.blocks.back().id;
    for (const BlockRecord& block : answer.blocks) TRIREME_TRY_DONE(visit(block));
    TRIREME_TRY_DONE(after_answer());
  }
}

// Reads all chunks of blocks, a few blocks ahead, and counts those that are not intact.
class ChunkChecker {
 public:
  ChunkChecker(Store& store, ScrubTotals& totals) : store_(store), totals_(totals) {}

  void add(const BlockRecord& block) {
    if (ahead_.size() >= kBlocksAtOnce) check_oldest();
    ahead_.push_back(BlockReader::start_all(store_, block,
                                            pool_.take(block.servers.size() * block.chunk_bytes)));
  }
  // Waits for all blocks, and tells the metadata what is lost.
  Status finish() {
    while (!ahead_.empty()) check_oldest();
    return note_losses(store_, std::exchange(losses_, {}));
  }

 private:
  void check_oldest() {
    const std::shared_ptr<BlockReader> reader = std::move(ahead_.front());
    ahead_.pop_front();
    reader->wait_for_all();
    const BlockRecord& block = reader->block();
    for (int chunk = 0; chunk < int(block.servers.size()); ++chunk) {
      if (block.servers[size_t(chunk)] == kNoServer) continue;
      const ChunkState state = reader->outcome(chunk).state;
      ++totals_.num_chunks;
      totals_.num_damaged += state == ChunkState::Damaged ? 1 : 0;
      totals_.num_missing += state == ChunkState::Missing ? 1 : 0;
      totals_.num_unreadable += state == ChunkState::Unreadable ? 1 : 0;
    }
    const std::vector<Move> found = reader->losses();
    losses_.insert(losses_.end(), found.begin(), found.end());
  }

  Store& store_;
  ScrubTotals& totals_;
  BufferPool pool_;
  std::deque<std::shared_ptr<BlockReader>> ahead_;
  std::vector<Move> losses_;
};

// Returns the chunks that have no server, and the one on `drained`.
std::vector<int> chunks_to_move(const BlockRecord& block, int drained) {
  std::vector<int> chunks;
  for (int chunk = 0; chunk < int(block.servers.size()); ++chunk) {
    const int32_t server = block.servers[size_t(chunk)];
    if (server == kNoServer || server == drained) chunks.push_back(chunk);
  }
  return chunks;
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
  TRIREME_TRY_DONE(for_each_block(
      store, QuestionKind::Queue,
      [&](const BlockRecord& block) -> Status {
        mover.add(block, chunks_to_move(block, kNoServer));
        return Done{};
      },
      [&]() -> Status {
        TRIREME_TRY_DONE(mover.commit());
        return note_losses(store, mover.take_losses());
      }));
  return std::move(mover.totals());
}

Result<ScrubTotals> scrub_store(Store& store) {
  ScrubTotals totals;
  TRIREME_TRY_DONE(take_in_new_disks(store));
  DeadWriters dead_writers(store);
  TRIREME_TRY_DONE(dead_writers.begin(store));
  ChunkChecker checker(store, totals);
  TRIREME_TRY_DONE(for_each_block(
      store, QuestionKind::Blocks,
      [&](const BlockRecord& block) -> Status {
        checker.add(block);
        return Done{};
      },
      [&] { return checker.finish(); }));
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
      [&](const BlockRecord& block) -> Status {
        if (std::ranges::count(block.servers, server) > 0) {
          mover.add(block, chunks_to_move(block, server));
        }
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
