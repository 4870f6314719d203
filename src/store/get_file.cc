#include "store/get_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>

#include "base/file.h"
#include "base/hash.h"
#include "store/block_reader.h"

namespace trireme {
namespace {

constexpr size_t kBlocksAhead = 3;

class FileReader {
 public:
  FileReader(Store& store, const FileAnswer& answer) : store_(store), answer_(answer) {
    for (const BlockRecord& block : answer.blocks) blocks_[block.id] = &block;
  }

  Result<GetTotals> read(const FileSink& sink) {
    const WrittenFile& file = answer_.files.front();
    Hasher64 hasher;
    for (const Extent& extent : file.record.extents) {
      TRIREME_TRY_DONE(begin_ahead());
      const std::shared_ptr<BlockReader> reader = ahead_.front();
      ahead_.pop_front();
      const Result<std::span<std::byte>> block = reader->finish();
      const std::vector<Move> losses = reader->losses();
      totals_.losses.insert(totals_.losses.end(), losses.begin(), losses.end());
      if (!block.ok()) return with_context(block.error(), file.path);
      totals_.decoded_blocks += reader->was_decoded() ? 1 : 0;
      const auto bytes =
          std::span<const std::byte>(block.value()).subspan(extent.offset, extent.bytes);
      for (size_t done = 0; done < bytes.size(); done += kCachedPartBytes) {
        const auto part = bytes.subspan(done, std::min(kCachedPartBytes, bytes.size() - done));
        hasher.update(part);
        TRIREME_TRY_DONE(sink(part));
      }
      totals_.bytes += int64_t(extent.bytes);
    }
    if (hasher.digest() != file.record.checksum) {
      return damaged(file.path + ": the checksum of the whole file is wrong");
    }
    return std::move(totals_);
  }

 private:
  Status begin_ahead() {
    const std::vector<Extent>& extents = answer_.files.front().record.extents;
    while (ahead_.size() < kBlocksAhead && next_ < extents.size()) {
      const Extent& extent = extents[next_++];
      const auto block = blocks_.find(extent.block);
      if (block == blocks_.end() || extent.bytes == 0) {
        return damaged("the metadata have no record of a block of the file");
      }
      const uint64_t chunk_bytes = block->second->chunk_bytes;
      const uint64_t end = extent.offset + extent.bytes;
      if (end > chunk_bytes * uint64_t(store_.code().num_data)) {
        return damaged("the metadata have an extent outside its block");
      }
      ahead_.push_back(BlockReader::start(store_, *block->second, int(extent.offset / chunk_bytes),
                                          int((end - 1) / chunk_bytes),
                                          pool_.take(block->second->servers.size() * chunk_bytes)));
    }
    return Done{};
  }

  Store& store_;
  const FileAnswer& answer_;
  std::map<uint64_t, const BlockRecord*> blocks_;
  std::deque<std::shared_ptr<BlockReader>> ahead_;
  BufferPool pool_;
  size_t next_ = 0;
  GetTotals totals_;
};

}  // namespace

Result<GetTotals> get_file(Store& store, const FileAnswer& file, const FileSink& sink) {
  return FileReader(store, file).read(sink);
}

Result<GetTotals> get_file(Store& store, const std::string& path, const FileSink& sink) {
  TRIREME_TRY(file, store.ask({.kind = QuestionKind::File, .text = path}));
  return get_file(store, file, sink);
}

Result<GetTotals> get_to_file(Store& store, const FileAnswer& file, const std::string& to) {
  TRIREME_TRY_DONE(make_folders_of(to));
  TRIREME_TRY(out, AtomicFile::create(to));
  const auto write = [&](std::span<const std::byte> bytes) { return out.write(bytes); };
  TRIREME_TRY(totals, get_file(store, file, write));
  TRIREME_TRY_DONE(out.commit());
  return totals;
}

}  // namespace trireme
