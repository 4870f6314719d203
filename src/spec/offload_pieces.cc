#include "spec/offload_pieces.h"

#include <algorithm>

#include "base/check.h"
#include "spec/norm_chunk.h"

namespace trireme {
namespace {

constexpr int64_t kAlignment = 64;
int64_t align(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

class Cut {
 public:
  Cut(const ChunkTables& chunk, int64_t buffer_bytes)
      : table_(chunk.tables.optimizer), most_(buffer_bytes) {
    for (size_t i = 0; i < chunk.owned.size(); ++i) cut(i, chunk.owned[i]);
  }
  std::vector<OffloadPiece> take() && { return std::move(pieces_); }

 private:
  void cut(size_t index, const OwnedParam& owned) {
    const int64_t element_bytes = size_of(DType::F32) * num_tensors(owned.name);
    if (element_bytes == 0) return;
    for (int64_t first = 0; first < owned.count;) {
      const int64_t free = pieces_.empty() ? 0 : most_ - pieces_.back().bytes;
      const int64_t room = free / element_bytes / kNormChunk * kNormChunk;
      const int64_t rest = owned.count - first;
      const bool fits = bytes_of(owned.name, rest) <= free;
      if (room == 0 && !fits) {
        if (pieces_.empty() || !pieces_.back().runs.empty()) pieces_.emplace_back();
        const int64_t most = std::max(most_ / element_bytes / kNormChunk * kNormChunk, kNormChunk);
        first += add(index, owned, first, std::min(rest, most));
      } else {
        first += add(index, owned, first, fits ? rest : std::min(rest, room));
      }
    }
  }

  int64_t add(size_t index, const OwnedParam& owned, int64_t first, int64_t count) {
    OffloadPiece& piece = pieces_.back();
    OffloadRun run{.owned = index, .first = first, .count = count};
    const auto place = [&](const char* kind) {
      const std::string name = kind + owned.name;
      if (!table_.contains(name)) return int64_t{-1};
      const TensorSpec& tensor = table_.at(name);
      const int64_t element = size_of(tensor.dtype);
      const int64_t at = piece.bytes;
      piece.blocks.push_back({tensor.offset + first * element, at, count * element});
      piece.bytes = align(at + count * element);
      return at;
    };
    run.master = place("master/");
    run.exp_avg = place("exp_avg/");
    run.exp_avg_sq = place("exp_avg_sq/");
    piece.runs.push_back(run);
    return count;
  }

  int num_tensors(const std::string& name) const {
    int count = 0;
    for (const char* kind : {"master/", "exp_avg/", "exp_avg_sq/"}) {
      count += table_.contains(kind + name) ? 1 : 0;
    }
    return count;
  }
  int64_t bytes_of(const std::string& name, int64_t elements) const {
    return num_tensors(name) * align(elements * size_of(DType::F32));
  }

  const TensorTable& table_;
  int64_t most_;
  std::vector<OffloadPiece> pieces_;
};

}  // namespace

std::vector<OffloadPiece> offload_pieces(const ChunkTables& chunk, int64_t buffer_bytes) {
  return Cut(chunk, buffer_bytes).take();
}

int64_t block_bytes(const OffloadPiece& piece) {
  int64_t bytes = 0;
  for (const OffloadBlock& block : piece.blocks) bytes += block.bytes;
  return bytes;
}

}  // namespace trireme
