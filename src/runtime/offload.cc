#include "runtime/offload.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "base/hash.h"
#include "memory/offload_pieces.h"

namespace trireme {
namespace {

constexpr int64_t kPageBytes = 4096;

}  // namespace

Offload::Offload(const RankPlan& plan, const RankMemory& memory, const std::string& path,
                 double timeout_s)
    : timeout_s_(timeout_s) {
  int64_t end = 0;
  size_t num_pieces = 0;
  size_t num_requests = 1;
  for (size_t c = 0; c < plan.chunks.size(); ++c) {
    const ChunkTables& chunk = plan.chunks[c];
    std::vector<Piece> pieces, units;
    for (const OffloadPiece& piece : chunk.pieces) {
      const size_t buffer = num_pieces++ % kStagingBuffers;
      void* at = memory.at(plan.memory.staging[buffer]);
      pieces.push_back({.blocks = piece.blocks,
                        .buffer = static_cast<std::byte*>(at),
                        .file_begin = end,
                        .chunk = c});
    }
    for (int unit = 0; chunk.params_in_file && unit < num_units(chunk.stage); ++unit) {
      void* at = memory.unit_params(int(c), unit);
      units.push_back({.blocks = unit_blocks(chunk, unit),
                       .buffer = static_cast<std::byte*>(at),
                       .file_begin = end,
                       .chunk = c});
    }
    num_requests += 2 * (pieces.size() + units.size());
    file_begins_.push_back(end);
    params_begins_.push_back(chunk.params_in_file ? end + params_in_file_begin(chunk) : -1);
    const bool uses_file = !pieces.empty() || chunk.params_in_file;
    if (uses_file) end += (file_bytes(chunk) + kPageBytes - 1) / kPageBytes * kPageBytes;
    pieces_.push_back(std::move(pieces));
    units_.push_back(std::move(units));
  }
  if (end == 0) return;
  file_ = std::make_unique<OffloadFile>(path, end);
  requests_.resize(num_requests);
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

void* Offload::params(int chunk) const {
  const int64_t begin = params_begins_[size_t(chunk)];
  return begin < 0 || file_ == nullptr ? nullptr : file_->mapped() + begin;
}

void* Offload::staged(int chunk, int piece) const {
  return pieces_[size_t(chunk)][size_t(piece)].buffer;
}

void Offload::start(const Action& action, bool is_fetch) {
  if (file_ == nullptr) return;  // the rank owns no shard: servers hold all of them
  const auto chunk = size_t(action.chunk);
  const bool is_unit = !is_of_piece(action.kind);
  Piece& piece = is_unit ? units_[chunk][size_t(action.first_unit)]
                         : pieces_[chunk][size_t(action.microbatch)];
  moved_bytes_ += block_bytes(piece.blocks);
  {
    const std::lock_guard lock(mutex_);
    TRIREME_CHECK(num_started_ - num_done_ < int64_t(requests_.size()),
                  "more pieces on their way than there are");
    requests_[size_t(num_started_) % requests_.size()] = {&piece, is_fetch, is_unit};
    piece.request = num_started_++;
  }
  changed_.notify_all();
}

void Offload::finish_fetch(const Action& action) {
  wait_for(pieces_[size_t(action.chunk)][size_t(action.microbatch)].request);
}

void Offload::finish_units(const Action& action) {
  const std::vector<Piece>& units = units_[size_t(action.chunk)];
  if (units.empty()) return;
  const int end = action.num_units == 0 ? int(units.size()) : action.first_unit + action.num_units;
  int64_t last = -1;
  for (int unit = action.first_unit; unit < end; ++unit) {
    last = std::max(last, units[size_t(unit)].request);
  }
  wait_for(last);
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
    throw DeviceError(fmt::format("{}: no answer from the disk for {} s (run.comm_timeout_s)",
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
  for (const OffloadBlock& block : piece.blocks) {
    const std::span<std::byte> bytes{piece.buffer + block.in_buffer, size_t(block.bytes)};
    if (request.is_fetch) {
      file_->read(piece.file_begin + block.in_file, bytes);
    } else {
      file_->write(piece.file_begin + block.in_file, bytes);
    }
  }
  const uint64_t hash = hash_of(piece, piece.buffer, false);
  if (request.is_fetch && piece.has_hash && hash != piece.hash) fail_damaged(piece);
  piece.hash = hash;
  piece.has_hash = true;
  if (request.is_fetch || request.is_unit) return;
  for (Piece& unit : units_[piece.chunk]) unit.has_hash = false;  // it may hold a part of them
}

uint64_t Offload::hash_of(const Piece& piece, const std::byte* base, bool is_in_file) const {
  uint64_t hash = 0;
  for (const OffloadBlock& block : piece.blocks) {
    const std::byte* data = base + (is_in_file ? block.in_file : block.in_buffer);
    hash = hash64(std::span<const std::byte>{data, size_t(block.bytes)}, hash);
  }
  return hash;
}

void Offload::fail_damaged(const Piece& piece) const {
  throw IoError(fmt::format("{}: damaged: the {} bytes from byte {} on are not what was written",
                            file_->path(), block_bytes(piece.blocks),
                            piece.file_begin + piece.blocks.front().in_file));
}

void Offload::verify() const {
  if (file_ == nullptr) return;
  file_->expect_whole();
  for (const std::vector<Piece>& of_chunk : pieces_) {
    for (const Piece& piece : of_chunk) {
      if (!piece.has_hash) continue;
      const std::byte* table = file_->mapped() + piece.file_begin;
      if (hash_of(piece, table, true) != piece.hash) fail_damaged(piece);
    }
  }
}

void Offload::adopt_map() {
  if (file_ == nullptr) return;
  for (auto* all : {&pieces_, &units_}) {
    for (std::vector<Piece>& of_chunk : *all) {
      for (Piece& piece : of_chunk) piece.has_hash = false;
    }
  }
  file_->release_pages();
}

}  // namespace trireme
