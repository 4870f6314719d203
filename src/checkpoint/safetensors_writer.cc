#include "checkpoint/safetensors_writer.h"

#include <algorithm>
#include <utility>

namespace trireme {
namespace {

// Bytes are hashed and written while they are in the cache of a core.
constexpr size_t kChunk = size_t{256} << 10;

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::vector<SafetensorsSpec> tensors, AtomicFile file)
    : tensors_(std::move(tensors)), file_(std::move(file)) {}

Result<SafetensorsWriter> SafetensorsWriter::create(
    const std::string& path, std::vector<SafetensorsSpec> tensors,
    const std::map<std::string, std::string>& metadata, Progress* progress) {
  TRIREME_TRY(file, AtomicFile::create(path, progress));
  const std::string header = print_safetensors_header(tensors, metadata);
  TRIREME_TRY_DONE(file.write(header));
  SafetensorsWriter writer(std::move(tensors), std::move(file));
  writer.written_.data_offset = static_cast<int64_t>(header.size());
  writer.written_.bytes = writer.written_.data_offset;
  writer.written_.header_checksum = hash64(header);
  writer.close_finished_tensors();
  return writer;
}

void SafetensorsWriter::close_finished_tensors() {
  while (remaining_ == 0) {
    if (hasher_ != nullptr) written_.checksums.push_back(hasher_->digest());
    hasher_ = nullptr;
    if (written_.offsets.size() == tensors_.size()) return;
    remaining_ = tensors_[written_.offsets.size()].bytes();
    written_.offsets.push_back(written_.bytes);
    hasher_ = std::make_unique<Hasher64>();
  }
}

Status SafetensorsWriter::write(std::span<const std::byte> bytes) {
  TRIREME_CHECK(static_cast<int64_t>(bytes.size()) <= remaining_,
                "more bytes than the tensor has left");
  while (!bytes.empty()) {
    const auto chunk = bytes.first(std::min(bytes.size(), kChunk));
    hasher_->update(chunk);
    TRIREME_TRY_DONE(file_.write(chunk));
    bytes = bytes.subspan(chunk.size());
    written_.bytes += static_cast<int64_t>(chunk.size());
    remaining_ -= static_cast<int64_t>(chunk.size());
  }
  close_finished_tensors();
  return Done{};
}

Result<SafetensorsWriter::Written> SafetensorsWriter::finish() {
  TRIREME_CHECK(remaining_ == 0 && written_.checksums.size() == tensors_.size(),
                "finish() before the last tensor's data");
  TRIREME_TRY_DONE(file_.commit());
  return written_;
}

}  // namespace trireme
