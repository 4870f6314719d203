#include "memory/offload_pieces.h"

#include <algorithm>

#include "base/align.h"
#include "base/check.h"
#include "schema/norm_chunk.h"

namespace trireme {
namespace {

class Cut {
 public:
  Cut(const ChunkTables& chunk, int64_t buffer_bytes)
      : chunk_(chunk), table_(chunk.tables.optimizer), most_(buffer_bytes) {
    for (size_t i = 0; i < chunk.owned.size(); ++i) cut(i, chunk.owned[i]);
  }
  std::vector<OffloadPiece> take() && { return std::move(pieces_); }

 private:
  // Of a parameter's first element, and the place in the run to note.
  struct Source {
    int64_t in_file = 0;
    int64_t element_bytes = 0;
    int64_t OffloadRun::*place = nullptr;
  };

  std::vector<Source> sources_of(const OwnedParam& owned) const {
    std::vector<Source> sources;
    if (chunk_.params_in_file) {
      const int64_t bytes = size_of(chunk_.tables.params.tensors().front().dtype);
      sources.push_back(
          {params_in_file_begin(chunk_) + owned.param_begin * bytes, bytes, &OffloadRun::param});
    }
    const auto add = [&](const char* kind, int64_t OffloadRun::*place) {
      const std::string name = kind + owned.name;
      if (!table_.contains(name)) return;
      const TensorSpec& tensor = table_.at(name);
      sources.push_back({tensor.offset, size_of(tensor.dtype), place});
    };
    add("master/", &OffloadRun::master);
    add("exp_avg/", &OffloadRun::exp_avg);
    add("exp_avg_sq/", &OffloadRun::exp_avg_sq);
    return sources;
  }

  void cut(size_t index, const OwnedParam& owned) {
    const std::vector<Source> sources = sources_of(owned);
    int64_t element_bytes = 0;
    for (const Source& source : sources) element_bytes += source.element_bytes;
    if (element_bytes == 0) return;
    for (int64_t first = 0; first < owned.count;) {
      const int64_t rest = owned.count - first;
      const int64_t free = pieces_.empty() ? 0 : most_ - pieces_.back().bytes;
      int64_t count = bytes_of(sources, rest) <= free ? rest : whole_chunks(free / element_bytes);
      if (count == 0) {
        pieces_.emplace_back();
        count = std::max(whole_chunks(most_ / element_bytes), kNormChunk);
      }
      first += add(index, sources, first, std::min(rest, count));
    }
  }

  int64_t add(size_t index, const std::vector<Source>& sources, int64_t first, int64_t count) {
    OffloadPiece& piece = pieces_.back();
    OffloadRun run{.owned = index, .first = first, .count = count};
    for (const Source& source : sources) {
      const int64_t bytes = count * source.element_bytes;
      run.*source.place = piece.bytes;
      piece.blocks.push_back({source.in_file + first * source.element_bytes, piece.bytes, bytes});
      piece.bytes = aligned_bytes(piece.bytes + bytes);
    }
    piece.runs.push_back(run);
    return count;
  }

  static int64_t whole_chunks(int64_t elements) { return elements / kNormChunk * kNormChunk; }
  static int64_t bytes_of(const std::vector<Source>& sources, int64_t elements) {
    int64_t bytes = 0;
    for (const Source& source : sources) bytes += aligned_bytes(elements * source.element_bytes);
    return bytes;
  }

  const ChunkTables& chunk_;
  const TensorTable& table_;
  int64_t most_;
  std::vector<OffloadPiece> pieces_;
};

}  // namespace

int64_t params_in_file_begin(const ChunkTables& chunk) {
  return aligned_bytes(chunk.tables.optimizer.bytes());
}

int64_t file_bytes(const ChunkTables& chunk) {
  return params_in_file_begin(chunk) + (chunk.params_in_file ? chunk.params_bytes : 0);
}

// Of shards, the rank's own: the rest is gathered.
std::vector<OffloadBlock> unit_blocks(const ChunkTables& chunk, int first_unit) {
  const int64_t element = size_of(chunk.tables.params.tensors().front().dtype);
  std::vector<OffloadBlock> blocks;
  for (const PlacedBucket& placed : chunk.buckets) {
    if (placed.bucket.unit != first_unit) continue;
    const bool is_shard = chunk.zero.shards_params();
    const TableRange range = is_shard ? placed.shard.params : placed.bucket.params();
    const int64_t stored = is_shard ? placed.param_storage : range.begin;
    if (range.count == 0) continue;
    blocks.push_back({params_in_file_begin(chunk) + stored * element, range.begin * element,
                      range.count * element});
  }
  return blocks;
}

std::vector<OffloadPiece> offload_pieces(const ChunkTables& chunk, int64_t buffer_bytes) {
  return Cut(chunk, buffer_bytes).take();
}

int64_t block_bytes(const std::vector<OffloadBlock>& blocks) {
  int64_t bytes = 0;
  for (const OffloadBlock& block : blocks) bytes += block.bytes;
  return bytes;
}

}  // namespace trireme
