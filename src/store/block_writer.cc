#include "store/block_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/check.h"

namespace trireme {
namespace {

constexpr uint64_t kDecodedOf = 16;

// Decodes the block without its first num_parity chunks, and compares the checksums.
Status check_decoding(const StoreCode& code, std::span<const Block> chunks) {
  const size_t chunk_bytes = chunks.front().bytes.size();
  BlockBuffer copy(chunk_bytes * chunks.size());
  std::vector<Block> decoded = chunks_of(copy, code, uint32_t(chunk_bytes));
  std::vector<int> lost;
  for (int chunk = 0; chunk < code.num_chunks(); ++chunk) {
    decoded[size_t(chunk)].checksum = chunks[size_t(chunk)].checksum;
    if (chunk < code.num_parity) {
      lost.push_back(chunk);
    } else {
      std::ranges::copy(chunks[size_t(chunk)].bytes, decoded[size_t(chunk)].bytes.begin());
    }
  }
  return recover_chunks(code, decoded, lost);
}

}  // namespace

std::vector<Block> chunks_of(BlockBuffer& buffer, const StoreCode& code, uint32_t chunk_bytes) {
  std::vector<Block> chunks(size_t(code.num_chunks()));
  for (size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    chunks[chunk].bytes = buffer.bytes().subspan(chunk * chunk_bytes, chunk_bytes);
  }
  return chunks;
}

Result<std::shared_ptr<BlockWriter>> BlockWriter::start(Store& store, uint64_t id,
                                                        std::shared_ptr<BlockBuffer> buffer,
                                                        size_t data_bytes,
                                                        std::vector<int> servers) {
  const StoreCode& code = store.code();
  const size_t num_data = size_t(code.num_data);
  const size_t chunk_bytes = (data_bytes + num_data - 1) / num_data;
  std::shared_ptr<BlockWriter> writer(new BlockWriter(store, std::move(buffer)));
  writer->chunks_ = chunks_of(*writer->buffer_, code, uint32_t(chunk_bytes));
  const auto data = writer->buffer_->bytes();
  std::ranges::fill(data.subspan(data_bytes, num_data * chunk_bytes - data_bytes), std::byte{0});
  encode_chunks(code, writer->chunks_);
  if (store.faults() != nullptr) store.faults()->after_encoding(writer->chunks_);
  if (id % kDecodedOf == 0) {
    const Status status = check_decoding(code, writer->chunks_);
    if (!status.ok())
      return with_context(status.error(), "a block that was encoded does not decode");
  }
  writer->servers_ = std::move(servers);
  writer->record_ = {.id = id, .chunk_bytes = uint32_t(chunk_bytes)};
  writer->record_.servers.assign(size_t(code.num_chunks()), kNoServer);
  for (const Block& chunk : writer->chunks_) writer->record_.checksums.push_back(chunk.checksum);
  writer->num_open_ = code.num_chunks();
  for (int chunk = 0; chunk < code.num_chunks(); ++chunk) {
    store.queue().add([writer, chunk] { writer->write_chunk(chunk); });
  }
  return writer;
}

int BlockWriter::next_server() {
  const std::lock_guard lock(mutex_);
  return next_server_ < servers_.size() ? servers_[next_server_++] : kNoServer;
}

void BlockWriter::write_chunk(int chunk) {
  const Block& block = chunks_[size_t(chunk)];
  int server = next_server();
  std::string failures;
  for (; server != kNoServer; server = next_server()) {
    const Status status =
        store_.target(server)->write({record_.id, chunk}, block.bytes, block.checksum);
    if (status.ok()) break;
    failures += "; " + status.error().message;
  }
  const std::lock_guard lock(mutex_);
  record_.servers[size_t(chunk)] = server;
  failures_ += failures;
  num_written_ += server == kNoServer ? 0 : 1;
  --num_open_;
  has_news_.notify_all();
}

Result<BlockRecord> BlockWriter::finish() {
  const StoreCode& code = store_.code();
  std::unique_lock lock(mutex_);
  has_news_.wait(lock, [&] { return num_open_ == 0 || num_written_ >= code.least_written(); });
  has_news_.wait_for(lock, std::chrono::duration<double>(store_.straggler_s()),
                     [&] { return num_open_ == 0; });
  if (num_written_ < code.num_data + 1) {
    return Error{ErrorKind::Damaged,
                 fmt::format("{} of {} chunks of a block were written, and {} are needed at least, "
                             "so nothing was stored; {} of {} servers can be used{}",
                             num_written_, code.num_chunks(), code.num_data + 1, servers_.size(),
                             store_.num_servers(), failures_)};
  }
  return record_;
}

}  // namespace trireme
