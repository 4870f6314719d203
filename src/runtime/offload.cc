#include "runtime/offload.h"

#include <fmt/format.h>

#include <chrono>

#include "base/hash.h"
#include "runtime/clock.h"
#include "spec/offload_pieces.h"

namespace trireme {
namespace {

constexpr int64_t kPageBytes = 4096;

}  // namespace

Offload::Offload(const RankPlan& plan, const RankMemory& memory, const std::string& path,
                 double timeout_s)
    : timeout_s_(timeout_s) {
  int64_t file_bytes = 0;
  size_t num_pieces = 0;
  for (size_t c = 0; c < plan.chunks.size(); ++c) {
    const ChunkTables& chunk = plan.chunks[c];
    file_begins_.push_back(file_bytes);
    std::vector<Piece> pieces;
    for (const OffloadPiece& piece : chunk.pieces) {
      const size_t buffer = num_pieces++ % kStagingBuffers;
      pieces.push_back({.plan = &piece,
                        .buffer = static_cast<std::byte*>(memory.at(plan.memory.staging[buffer])),
                        .file_begin = file_bytes});
    }
    pieces_.push_back(std::move(pieces));
    if (chunk.pieces.empty()) continue;
    const int64_t bytes = chunk.tables.optimizer.bytes();
    file_bytes += (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  }
  if (num_pieces == 0) return;
  file_ = std::make_unique<OffloadFile>(path, file_bytes);
  requests_.resize(2 * num_pieces + 1);
  thread_ = std::thread([this] { serve(); });
}

Offload::~Offload() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void* Offload::state(int chunk) const {
  if (pieces_[size_t(chunk)].empty()) return nullptr;
  return file_->mapped() + file_begins_[size_t(chunk)];
}

void* Offload::staged(int chunk, int piece) const {
  return pieces_[size_t(chunk)][size_t(piece)].buffer;
}

void Offload::start(const Action& action, bool is_fetch) {
  Piece& piece = pieces_[size_t(action.chunk)][size_t(action.microbatch)];
  moved_bytes_ += block_bytes(*piece.plan);
  {
    const std::lock_guard lock(mutex_);
    TRIREME_CHECK(num_started_ - num_done_ < int64_t(requests_.size()),
                  "more pieces on their way than there are");
    requests_[size_t(num_started_) % requests_.size()] = {&piece, is_fetch};
    if (is_fetch) piece.fetch = num_started_;
    ++num_started_;
  }
  changed_.notify_all();
}

void Offload::finish_fetch(const Action& action) {
  wait_for(pieces_[size_t(action.chunk)][size_t(action.microbatch)].fetch);
}

void Offload::finish() { wait_for(num_started_ - 1); }

void Offload::wait_for(int64_t request) {
  if (file_ == nullptr) return;
  const int64_t begin_ns = monotonic_ns();
  std::unique_lock lock(mutex_);
  const bool is_there = changed_.wait_for(lock, std::chrono::duration<double>(timeout_s_), [&] {
    return num_done_ > request || failure_ != nullptr;
  });
  if (failure_) std::rethrow_exception(failure_);
  if (!is_there) {
    throw IoError(fmt::format("{}: no answer from the disk for {} s (run.comm_timeout_s)",
                              file_->path(), timeout_s_));
  }
  waited_ns_ += monotonic_ns() - begin_ns;
}

void Offload::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_over_ || num_done_ < num_started_; });
    if (is_over_) return;
    const Request request = requests_[size_t(num_done_) % requests_.size()];
    lock.unlock();
    std::exception_ptr failure;
    try {
      move(request);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    failure_ = failure;
    if (failure_) is_over_ = true;
    ++num_done_;
    changed_.notify_all();
  }
}

void Offload::move(const Request& request) {
  Piece& piece = *request.piece;
  for (const OffloadBlock& block : piece.plan->blocks) {
    const std::span<std::byte> bytes{piece.buffer + block.in_buffer, size_t(block.bytes)};
    if (request.is_fetch) {
      file_->read(piece.file_begin + block.in_file, bytes);
    } else {
      file_->write(piece.file_begin + block.in_file, bytes);
    }
  }
  const uint64_t hash = hash_of(piece, piece.buffer, false);
  if (request.is_fetch && piece.was_written && hash != piece.hash) fail_damaged(piece);
  piece.hash = hash;
  piece.was_written = piece.was_written || !request.is_fetch;
}

uint64_t Offload::hash_of(const Piece& piece, const std::byte* base, bool is_in_file) const {
  uint64_t hash = 0;
  for (const OffloadBlock& block : piece.plan->blocks) {
    const std::byte* data = base + (is_in_file ? block.in_file : block.in_buffer);
    hash = hash64(std::span<const std::byte>{data, size_t(block.bytes)}, hash);
  }
  return hash;
}

void Offload::fail_damaged(const Piece& piece) const {
  throw IoError(fmt::format("{}: damaged: the {} bytes from byte {} on are not what was written",
                            file_->path(), block_bytes(*piece.plan),
                            piece.file_begin + piece.plan->blocks.front().in_file));
}

void Offload::verify() const {
  if (file_ == nullptr) return;
  file_->expect_whole();
  for (const std::vector<Piece>& of_chunk : pieces_) {
    for (const Piece& piece : of_chunk) {
      if (!piece.was_written) continue;
      const std::byte* table = file_->mapped() + piece.file_begin;
      if (hash_of(piece, table, true) != piece.hash) fail_damaged(piece);
    }
  }
}

void Offload::release_pages() const {
  if (file_ != nullptr) file_->release_pages();
}

}  // namespace trireme
