#include "checkpoint/state_shard.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "device/thread_team.h"

namespace trireme {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 20;

// Adds the elements [begin, begin + slice's) of the piece's own.
void add_part(const TensorPiece& piece, const Slice& slice, int64_t begin,
              std::vector<TensorPiece>& parts) {
  TensorPiece part = piece;
  part.slice = slice;
  if (piece.data != nullptr) {
    part.data = static_cast<const std::byte*>(piece.data) + begin * size_of(piece.dtype);
  }
  parts.push_back(std::move(part));
}

// A box that is not the whole tensor is cut between its rows.
void add_parts(const TensorPiece& piece, std::vector<TensorPiece>& parts) {
  const Slice& slice = piece.slice;
  const int64_t count = slice.num_elements();
  if (count == 0) return;
  const bool is_range = !slice.is_box() || slice.is_whole(piece.full_shape);
  if (count <= kMostElements || (!is_range && slice.extent().rank() != 2)) {
    return add_part(piece, slice, 0, parts);
  }
  if (is_range) {
    const int64_t first = slice.is_box() ? 0 : slice.first();
    for (int64_t begin = 0; begin < count; begin += kMostElements) {
      const Slice range = Slice::range(first + begin, std::min(kMostElements, count - begin));
      add_part(piece, range, begin, parts);
    }
    return;
  }
  const int64_t rows = slice.extent()[0], columns = slice.extent()[1];
  const int64_t at_once = std::max<int64_t>(1, kMostElements / columns);
  for (int64_t row = 0; row < rows; row += at_once) {
    const Slice box = Slice::box(Shape{slice.begin()[0] + row, slice.begin()[1]},
                                 Shape{std::min(at_once, rows - row), columns});
    add_part(piece, box, row * columns, parts);
  }
}

SafetensorsSpec spec_of(const TensorPiece& piece) {
  return spec_in_shard(piece.name, piece.dtype, piece.full_shape, piece.slice);
}

}  // namespace

StateShard::StateShard(std::span<const TensorPiece> pieces, int rank)
    : file_(shard_file_name(rank, 0)) {
  std::vector<std::pair<SafetensorsSpec, const TensorPiece*>> order;
  for (const TensorPiece& piece : pieces) order.emplace_back(spec_of(piece), &piece);
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return precedes_in_safetensors(a.first, b.first); });
  for (const auto& [spec, piece] : order) add_parts(*piece, pieces_);
  std::vector<SafetensorsSpec> sorted;
  for (const TensorPiece& piece : pieces_) sorted.push_back(spec_of(piece));
  if (pieces_.empty()) return;
  header_ = print_safetensors_header(sorted, {});
  header_checksum_ = hash64(header_);
  bytes_ = int64_t(header_.size());
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const auto* data = static_cast<const std::byte*>(pieces_[i].data);
    copies_.push_back({.from = data, .bytes = sorted[i].bytes(), .offset = bytes_});
    bytes_ += sorted[i].bytes();
  }
  by_size_.resize(copies_.size());
  std::iota(by_size_.begin(), by_size_.end(), size_t{0});
  std::stable_sort(by_size_.begin(), by_size_.end(),
                   [&](size_t a, size_t b) { return copies_[a].bytes > copies_[b].bytes; });
}

void StateShard::forget_copies() {
  for (HashedCopy& copy : copies_) copy.is_made = false;
}

void StateShard::complete(std::span<std::byte> shard, ThreadTeam& team) {
  TRIREME_CHECK(int64_t(shard.size()) == bytes_, "the memory of another shard");
  const bool has_constants = std::memcmp(shard.data(), header_.data(), header_.size()) == 0;
  const auto is_missing = [&](const HashedCopy& copy) {
    return !copy.is_made && !(copy.is_constant && has_constants);
  };
  // Usually the update has made all copies, and waking the team would take longer than all else.
  if (std::any_of(copies_.begin(), copies_.end(), is_missing)) {
    team.parallel_for(int64_t(by_size_.size()), [&](int64_t tile, int) {
      HashedCopy& copy = copies_[by_size_[size_t(tile)]];
      if (is_missing(copy)) copy.make(shard);
    });
  }
  if (!has_constants) std::memcpy(shard.data(), header_.data(), header_.size());
}

template <typename Checksum>
IndexPart StateShard::make_part(Checksum&& checksum) const {
  IndexPart part;
  if (bytes_ == 0) return part;
  part.shards[file_] = {.bytes = bytes_, .checksum = header_checksum_};
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const TensorPiece& piece = pieces_[i];
    const auto [tensor, is_new] =
        part.tensors.emplace(piece.name, StoredTensor{piece.dtype, piece.full_shape, {}});
    tensor->second.slices.push_back({.slice = piece.slice,
                                     .file = file_,
                                     .offset = copies_[i].offset,
                                     .checksum = checksum(i)});
  }
  return part;
}

IndexPart StateShard::index_part() const {
  return make_part([this](size_t copy) { return copies_[copy].checksum; });
}

IndexPart StateShard::numbered_part() const {
  return make_part([](size_t copy) { return uint64_t(copy); });
}

}  // namespace trireme
