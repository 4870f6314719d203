#include "store/store_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <list>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "store/file_pieces.h"

namespace trireme {
namespace {

constexpr size_t kPiecesAhead = 3;
// A piece was used lately if it is among so many that were used last. These are the pieces ahead,
// and others that a reader needs in between, such as the checksums at the end of a token file.
constexpr size_t kLately = 8;

// So many bytes that are read on end are worth whole chunks.
constexpr int64_t kLongRun = int64_t{1} << 20;
// Several threads may each read on where they have ended.
constexpr size_t kRuns = 8;

class StoreInput : public InputBytes {
 public:
  StoreInput(OpenForReading open, std::string path, std::shared_ptr<InputBudget> budget,
             std::shared_ptr<const OpenedFile> file, std::vector<FilePiece> pieces)
      : open_(std::move(open)),
        path_(std::move(path)),
        budget_(std::move(budget)),
        checksum_(file->record().checksum),
        bytes_(int64_t(file->record().bytes)),
        pieces_(std::move(pieces)),
        least_held_(kLeastHeldPieces * largest_of(pieces_)),
        file_(std::move(file)) {
    budget_->open_bytes += bytes_;
  }
  ~StoreInput() override {
    let_go_of_all();
    budget_->open_bytes -= bytes_;
  }
  StoreInput(const StoreInput&) = delete;

  int64_t bytes() const override { return bytes_; }
  uint64_t checksum() const override { return checksum_; }

  Status read(int64_t offset, std::span<std::byte> out) const override {
    if (offset < 0 || int64_t(out.size()) > bytes_ - offset) {
      return damaged(path_ + ": cannot read at byte " + std::to_string(offset) + ": the file has " +
                     std::to_string(bytes_) + " bytes");
    }
    const bool is_long = note_run(offset, int64_t(out.size())) >= kLongRun;
    while (!out.empty()) {
      const Unit unit = unit_at(offset, is_long);
      const FilePiece piece = piece_of(unit);
      const int64_t in_piece = offset - piece.begin;
      const auto part = out.first(std::min(out.size(), size_t(piece.bytes - in_piece)));
      TRIREME_TRY_DONE(read_unit(unit, in_piece, part));
      out = out.subspan(part.size());
      offset += int64_t(part.size());
    }
    return Done{};
  }

  void will_read(int64_t offset, int64_t bytes) const override {
    if (offset < 0 || bytes <= 0 || offset >= bytes_) return;
    const int64_t end = std::min(offset + bytes, bytes_);
    while (offset < end) {
      const Unit unit = unit_at(offset, bytes >= kLongRun);
      const std::lock_guard lock(mutex_);
      if (!may_read_ahead()) return;
      hold(unit);
      const FilePiece piece = piece_of(unit);
      offset = piece.begin + piece.bytes;
    }
  }

 private:
  using Held = std::shared_ptr<HeldPiece>;
  // A part of the file that is read and held as one: that in a chunk, or in one piece of a chunk.
  struct Unit {
    size_t number = 0;      // index in pieces_
    int64_t part = kWhole;  // number of the piece of the chunk
    bool operator==(const Unit& other) const = default;
    bool operator<(const Unit& other) const {
      return std::tie(number, part) < std::tie(other.number, other.part);
    }
  };
  static constexpr int64_t kWhole = -1;
  static constexpr int64_t kLeastHeldPieces = 1 + int64_t(kPiecesAhead);
  struct Place {
    Held piece;
    std::list<Unit>::iterator place;
    bool is_unread = false;
  };
  // Reads of which each began where the one before ended.
  struct Run {
    int64_t end = -1;
    int64_t bytes = 0;
  };

  static int64_t largest_of(const std::vector<FilePiece>& pieces) {
    const auto largest = std::ranges::max_element(pieces, {}, &FilePiece::bytes);
    return largest == pieces.end() ? 0 : largest->bytes;
  }

  // Returns how many bytes were read on end, with these.
  int64_t note_run(int64_t offset, int64_t bytes) const {
    const std::lock_guard lock(mutex_);
    const auto before = std::ranges::find(runs_, offset, &Run::end);
    Run& run = before == runs_.end() ? runs_[next_run_++ % kRuns] : *before;
    run = {offset + bytes, (before == runs_.end() ? 0 : run.bytes) + bytes};
    return run.bytes;
  }

  Unit unit_at(int64_t offset, bool is_long) const {
    const size_t number = piece_at(offset);
    const FilePiece& piece = pieces_[number];
    const Unit whole{number, kWhole};
    if (is_long || piece.bytes <= kChunkPieceBytes || budget_->open_bytes <= budget_->most_bytes) {
      return whole;
    }
    const std::lock_guard lock(mutex_);
    if (held_.contains(whole)) return whole;
    return {number, (piece.in_chunk + offset - piece.begin) / kChunkPieceBytes};
  }

  FilePiece piece_of(Unit unit) const {
    const FilePiece& whole = pieces_[unit.number];
    if (unit.part == kWhole) return whole;
    const int64_t begin = std::max(whole.in_chunk, unit.part * kChunkPieceBytes);
    const int64_t end = std::min(whole.in_chunk + whole.bytes, (unit.part + 1) * kChunkPieceBytes);
    FilePiece piece = whole;
    piece.begin += begin - whole.in_chunk;
    piece.bytes = end - begin;
    piece.in_chunk = begin;
    return piece;
  }

  size_t piece_at(int64_t offset) const {
    const auto behind = std::ranges::upper_bound(pieces_, offset, {}, &FilePiece::begin);
    return size_t(behind - pieces_.begin()) - 1;
  }

  // Chunks may have moved since the file was opened. So a read that fails is done once more with
  // new metadata.
  Status read_unit(Unit unit, int64_t in_piece, std::span<std::byte> out) const {
    const auto [held, file] = take(unit);
    const Status first = held->copy(in_piece, out);
    if (first.ok()) return Done{};
    const Status opened = open_again(file);
    if (!opened.ok()) {
      return Error{first.error().kind,
                   fmt::format("{}: {}; the store could not be opened once more: {}", path_,
                               first.error().message, opened.error().message)};
    }
    const Status second = take(unit).first->copy(in_piece, out);
    return second.ok() ? Done{} : Status(with_context(second.error(), path_));
  }

  std::pair<Held, std::shared_ptr<const OpenedFile>> take(Unit unit) const {
    const std::lock_guard lock(mutex_);
    const size_t number = unit.number;
    // The pieces ahead are marked as used last, so that pieces which were read before them are
    // dropped first.
    const Held held = hold(unit);
    if (unit.part == kWhole && number > 0 && was_used_lately({number - 1, kWhole})) {
      const size_t end = std::min(pieces_.size(), number + 1 + kPiecesAhead);
      for (size_t ahead = number + 1; ahead < end; ++ahead) hold({ahead, kWhole});
    }
    count_unread(held_.at(unit), unit, -1);
    return {held, file_};
  }

  // A long range, such as that of a tensor, must not push out the pieces that are needed first.
  bool may_read_ahead() const {
    return num_unread_ < kPiecesAhead || budget_->unread_bytes < budget_->most_bytes / 2;
  }

  bool was_used_lately(Unit unit) const {
    const auto end = std::next(by_use_.begin(), std::min(by_use_.size(), kLately));
    return std::find(by_use_.begin(), end, unit) != end;
  }

  // Begins to read a piece, unless it is held already, and lets go of those that were not used for
  // the longest time. The caller has locked mutex_.
  Held hold(Unit unit) const {
    const auto found = held_.find(unit);
    if (found != held_.end()) {
      by_use_.splice(by_use_.begin(), by_use_, found->second.place);
      return found->second.piece;
    }
    const FilePiece piece = piece_of(unit);
    Held held = std::make_shared<HeldPiece>(file_, piece);
    by_use_.push_front(unit);
    Place& place = held_.emplace(unit, Place{held, by_use_.begin()}).first->second;
    count_held(piece.bytes);
    count_unread(place, unit, 1);
    while (budget_->held_bytes > budget_->most_bytes && held_bytes_ > least_held_) {
      let_go_of_oldest();
    }
    return held;
  }

  void count_held(int64_t bytes) const {
    held_bytes_ += bytes;
    budget_->held_bytes += bytes;
  }

  void let_go_of_oldest() const {
    const Unit unit = by_use_.back();
    by_use_.pop_back();
    count_unread(held_.at(unit), unit, -1);
    count_held(-piece_of(unit).bytes);
    held_.erase(unit);
  }
  void let_go_of_all() const {
    while (!held_.empty()) let_go_of_oldest();
  }

  // `change`: 1 if the piece is held now and was not read, -1 if it is read or let go of.
  void count_unread(Place& place, Unit unit, int change) const {
    if (place.is_unread == (change > 0)) return;
    place.is_unread = change > 0;
    num_unread_ += size_t(change);
    budget_->unread_bytes += change * piece_of(unit).bytes;
  }

  Status open_again(const std::shared_ptr<const OpenedFile>& failed) const {
    const std::lock_guard opening(opening_);
    {
      const std::lock_guard lock(mutex_);
      if (file_ != failed) return Done{};  // another thread has opened it
    }
    TRIREME_TRY(opened, open_file(open_, path_));
    if (opened->record().checksum != checksum_ || int64_t(opened->record().bytes) != bytes_) {
      return damaged("the file was replaced while it was read");
    }
    TRIREME_TRY(pieces, pieces_of(*opened));
    // The file may have the same bytes at other places of its blocks.
    if (pieces != pieces_) return damaged("the file was written again while it was read");
    const std::lock_guard lock(mutex_);
    file_ = std::move(opened);
    let_go_of_all();
    return Done{};
  }

  const OpenForReading open_;
  const std::string path_;
  const std::shared_ptr<InputBudget> budget_;  // shared with other files
  const uint64_t checksum_;
  const int64_t bytes_;
  const std::vector<FilePiece> pieces_;
  const int64_t least_held_;    // bytes that the file keeps whatever the budget says
  mutable std::mutex opening_;  // locked before mutex_
  mutable std::mutex mutex_;    // guards everything below
  mutable std::shared_ptr<const OpenedFile> file_;
  mutable std::list<Unit> by_use_;  // those that are held, those used last in front
  mutable std::map<Unit, Place> held_;
  mutable int64_t held_bytes_ = 0;
  mutable size_t num_unread_ = 0;  // units that are held and were read ahead alone
  mutable std::array<Run, kRuns> runs_ = {};
  mutable size_t next_run_ = 0;
};

}  // namespace

Result<std::shared_ptr<const InputBytes>> open_store_input(const OpenForReading& open,
                                                           const std::string& path,
                                                           std::shared_ptr<InputBudget> budget) {
  TRIREME_TRY(file, open_file(open, path));
  TRIREME_TRY(pieces, pieces_of(*file));
  return std::shared_ptr<const InputBytes>(std::make_shared<StoreInput>(
      open, path, std::move(budget), std::move(file), std::move(pieces)));
}

}  // namespace trireme
