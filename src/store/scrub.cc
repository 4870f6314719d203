// Verifies every chunk and every copy of the metadata.

#include <algorithm>
#include <chrono>
#include <deque>
#include <set>
#include <thread>
#include <utility>

#include "store/block_reader.h"
#include "store/repair.h"
#include "store/visit_blocks.h"

namespace trireme {
namespace {

constexpr size_t kBlocksAtOnce = 4;

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
  int64_t bytes() const { return bytes_; }  // of the chunks that were checked

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
      bytes_ += block.chunk_bytes;
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
  int64_t bytes_ = 0;
};

// Returns every chunk that the metadata name, with its server; kNoServer: it is lost.
Result<std::set<Garbage>> known_chunks(Store& store) {
  std::set<Garbage> known;
  TRIREME_TRY_DONE(
      for_each_block(store, QuestionKind::Blocks, [&](const BlockRecord& block) -> Status {
        for (int chunk = 0; chunk < int(block.servers.size()); ++chunk) {
          known.insert({block.servers[size_t(chunk)], block.id, chunk});
        }
        return Done{};
      }));
  return known;
}

// Removes files of chunks that no block has, and of chunks that were not written to their end. What
// is left of a chunk that is lost stays.
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
    const bool is_lost = known.contains({kNoServer, chunk.block, chunk.chunk});
    if (is_lost || known.contains(chunk) || writers.contains(token_of_block(chunk.block))) continue;
    num_removed += store.target(chunk.server)->remove({chunk.block, chunk.chunk}).ok() ? 1 : 0;
  }
  return num_removed;
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

}  // namespace

Result<ScrubTotals> scrub_store(Store& store, const OnProgress& on_progress) {
  ScrubTotals totals;
  TRIREME_TRY(num_mended, store.mend_metadata());
  totals.num_mended_metadata = num_mended;
  TRIREME_TRY_DONE(take_in_new_disks(store));
  DeadWriters dead_writers(store);
  TRIREME_TRY_DONE(dead_writers.begin(store));
  TRIREME_TRY(overview, store.overview());
  ChunkChecker checker(store, totals);
  UpkeepMeter meter(store, UpkeepKind::Scrub, overview.num_blocks, on_progress);
  TRIREME_TRY_DONE(for_each_block(
      store, QuestionKind::Blocks,
      [&](const BlockRecord& block) -> Status {
        checker.add(block);
        return meter.step(checker.bytes());
      },
      [&] { return checker.finish(); }));
  // A block whose chunk turned out to be lost while it was repaired is in the queue again.
  TRIREME_TRY(repaired, repair_queue(store, on_progress));
  totals.repaired = std::move(repaired);
  if (!totals.repaired.lost.empty()) {
    TRIREME_TRY(num_found, find_lost_chunks(store));
    if (num_found > 0) {
      TRIREME_TRY(again, repair_queue(store, on_progress));
      again.num_repaired += totals.repaired.num_repaired;
      again.bytes += totals.repaired.bytes;
      totals.repaired = std::move(again);
    }
  }
  TRIREME_TRY_DONE(store.collect_garbage());
  TRIREME_TRY_DONE(dead_writers.end(store));
  TRIREME_TRY(num_orphans, remove_orphans(store));
  totals.num_orphans = num_orphans;
  return totals;
}

}  // namespace trireme
