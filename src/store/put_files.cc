#include "store/put_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "store/block_writer.h"
#include "store/placement.h"
#include "store/writer_lease.h"

namespace trireme {
namespace {

constexpr size_t kBlocksInFlight = 3;
constexpr size_t kFilesOfGroup = 4096;

// Writes the files of one group into blocks.
class GroupWriter {
 public:
  GroupWriter(Store& store, const Overview& overview, const std::vector<uint64_t>& tokens)
      : store_(store),
        overview_(overview),
        tokens_(tokens),
        token_(tokens.front()),
        lease_(
            store.lease_s(), [this](double deadline_s) { return renew(deadline_s); },
            [] { return double(monotonic_ns()) * 1e-9; }),
        block_bytes_(size_t(store.code().num_data) * overview.facts.most_chunk_bytes) {}

  // Appends a file and returns its record without a token.
  Result<FileRecord> add(const std::string& path) {
    TRIREME_TRY(fd, open_regular_file(path));
    Result<FileRecord> record = add_open(fd, path);
    ::close(fd);
    return record;
  }

  // Returns the sealed blocks.
  Result<std::vector<BlockRecord>> finish() {
    TRIREME_TRY_DONE(send());
    while (!in_flight_.empty()) TRIREME_TRY_DONE(take_oldest());
    TRIREME_TRY_DONE(renew_tokens());
    return std::move(blocks_);
  }

  // Removes what was written, after a failure.
  void undo() {
    while (!in_flight_.empty()) {
      const Status ignored = take_oldest();
      static_cast<void>(ignored);
    }
    for (const BlockRecord& block : blocks_) {
      for (int chunk = 0; chunk < int(block.servers.size()); ++chunk) {
        ChunkTarget* const target = block.servers[size_t(chunk)] == kNoServer
                                        ? nullptr
                                        : store_.target(block.servers[size_t(chunk)]);
        if (target == nullptr) continue;
        const Status ignored = target->remove({block.id, chunk});
        static_cast<void>(ignored);
      }
    }
  }

 private:
  Result<FileRecord> add_open(int fd, const std::string& path) {
    FileRecord record;
    Hasher64 hasher;
    for (;;) {
      TRIREME_TRY_DONE(renew_tokens());
      if (buffer_ == nullptr) TRIREME_TRY_DONE(take_buffer());
      const auto room =
          buffer_->bytes().subspan(filled_, std::min(kCachedPartBytes, block_bytes_ - filled_));
      const ssize_t got = ::read(fd, room.data(), room.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return damaged(fmt::format("{}: cannot read: {}", path, std::strerror(errno)));
      if (got == 0) break;
      hasher.update(room.first(size_t(got)));
      append_extent(record, uint64_t(got));
      filled_ += size_t(got);
      if (filled_ == block_bytes_) TRIREME_TRY_DONE(send());
    }
    record.checksum = hasher.digest();
    return record;
  }

  void append_extent(FileRecord& record, uint64_t bytes) const {
    const uint64_t block = block_id(token_, num_blocks_);
    record.bytes += bytes;
    if (!record.extents.empty() && record.extents.back().block == block) {
      record.extents.back().bytes += bytes;
    } else {
      record.extents.push_back({block, filled_, bytes});
    }
  }

  Status take_buffer() {
    if (in_flight_.size() >= kBlocksInFlight) TRIREME_TRY_DONE(take_oldest());
    const size_t num_chunks = size_t(store_.code().num_chunks());
    buffer_ = pool_.take(num_chunks * overview_.facts.most_chunk_bytes);
    return Done{};
  }

  // In a store of servers the tokens are leased. In folders the lock says that a writer is alive.
  Status renew_tokens() { return store_.is_shared() ? lease_.renew_if_due() : Status(Done{}); }

  Status renew(double deadline_s) {
    MetadataCommand renew{.kind = CommandKind::Renew};
    renew.tokens = tokens_;
    return store_.change(std::move(renew), deadline_s);
  }

  // Starts to write the block that was filled.
  Status send() {
    if (filled_ == 0) return Done{};
    if (num_blocks_ == kMostBlocksOfToken) return usage("the file is too large for the store");
    const uint64_t id = block_id(token_, num_blocks_++);
    const size_t chunk_bytes = filled_ / size_t(store_.code().num_data) + 1;
    const size_t reserved = size_t(store_.code().num_chunks()) + 2;
    std::vector<int> servers =
        servers_for_block(overview_, store_.usable(), id, int64_t(chunk_bytes));
    servers.resize(std::min(servers.size(), reserved));
    for (const int server : servers) {
      overview_.bytes_of_server[size_t(server)] += int64_t(chunk_bytes);
    }
    TRIREME_TRY(writer, BlockWriter::start(store_, id, std::move(buffer_), filled_, servers));
    buffer_ = nullptr;
    filled_ = 0;
    in_flight_.push_back(writer);
    return Done{};
  }

  Status take_oldest() {
    const std::shared_ptr<BlockWriter> writer = in_flight_.front();
    in_flight_.pop_front();
    TRIREME_TRY(record, writer->finish());
    blocks_.push_back(record);
    return Done{};
  }

  Store& store_;
  Overview overview_;
  const std::vector<uint64_t> tokens_;
  const uint64_t token_;  // the first one, which numbers the blocks
  WriterLease lease_;
  const size_t block_bytes_;
  BufferPool pool_;
  std::shared_ptr<BlockBuffer> buffer_;  // being filled
  size_t filled_ = 0;
  uint64_t num_blocks_ = 0;
  std::deque<std::shared_ptr<BlockWriter>> in_flight_;
  std::vector<BlockRecord> blocks_;
};

Result<MetadataCommand> write_group(GroupWriter& writer, std::span<const FileToPut> files,
                                    const std::vector<uint64_t>& tokens) {
  MetadataCommand commit{.kind = CommandKind::Commit};
  for (size_t file = 0; file < files.size(); ++file) {
    TRIREME_TRY(record, writer.add(files[file].from));
    record.token = tokens[file];
    commit.files.push_back({files[file].path, record});
  }
  TRIREME_TRY(blocks, writer.finish());
  commit.blocks = std::move(blocks);
  return commit;
}

Status put_group(Store& store, std::span<const FileToPut> files, PutTotals& totals) {
  MetadataCommand begin{.kind = CommandKind::Begin};
  for (const FileToPut& file : files) begin.paths.push_back(file.path);
  TRIREME_TRY(tokens, store.command(begin));
  if (tokens.size() != files.size()) return damaged("the metadata gave too few tokens");
  TRIREME_TRY(overview, store.overview());
  GroupWriter writer(store, overview, tokens);
  Result<MetadataCommand> commit = write_group(writer, files, tokens);
  if (!commit.ok()) {
    writer.undo();
    MetadataCommand abort{.kind = CommandKind::Abort};
    abort.tokens = tokens;
    const Status ignored = store.change(std::move(abort));
    static_cast<void>(ignored);
    return commit.error();
  }
  commit->view = overview.view;
  TRIREME_TRY_DONE(store.change(*commit));
  for (const WrittenFile& file : commit->files) totals.bytes += int64_t(file.record.bytes);
  for (const BlockRecord& block : commit->blocks) {
    totals.chunks_to_repair += std::ranges::count(block.servers, kNoServer);
  }
  totals.num_files += int64_t(files.size());
  return Done{};
}

}  // namespace

Result<PutTotals> put_files(Store& store, const std::vector<FileToPut>& files) {
  PutTotals totals;
  for (size_t done = 0; done < files.size(); done += kFilesOfGroup) {
    const size_t count = std::min(kFilesOfGroup, files.size() - done);
    TRIREME_TRY_DONE(put_group(store, std::span(files).subspan(done, count), totals));
  }
  TRIREME_TRY_DONE(store.collect_garbage());
  return totals;
}

}  // namespace trireme
