#include "memory/offload_pieces.h"

#include <gtest/gtest.h>

#include <vector>

#include "schema/norm_chunk.h"

namespace trireme {
namespace {

ChunkTables chunk_of(DType compute, int degree, int index) {
  ModelConfig config;
  config.layers = 2;
  config.d_model = 96;
  config.heads = 4;
  config.vocab_size = 301;
  config.seq_len = 16;
  const ModelSpec model = *resolve_model(config, 0);
  return chunk_tables(model, whole_model(model), {1, compute}, {1, degree, index}, {});
}

TEST(OffloadPieces, HoldEveryElementOnceInBuffersOfTheSizeAskedFor) {
  for (const DType compute : {DType::F32, DType::BF16}) {
    for (const int index : {0, 1, 2}) {
      const ChunkTables chunk = chunk_of(compute, 3, index);
      for (const int64_t buffer : {int64_t{1}, int64_t{50000}, int64_t{100000}, int64_t{1} << 30}) {
        const int64_t smallest = (compute == DType::F32 ? 2 : 3) * 4 * kNormChunk;
        std::vector<int> seen(size_t(file_bytes(chunk)), 0);
        std::vector<int64_t> next(chunk.owned.size(), 0);
        for (const OffloadPiece& piece : offload_pieces(chunk, buffer)) {
          EXPECT_LE(piece.bytes, std::max(buffer, smallest));
          EXPECT_FALSE(piece.runs.empty());
          int64_t buffer_end = 0;
          for (const OffloadBlock& block : piece.blocks) {
            EXPECT_GE(block.in_buffer, buffer_end);
            buffer_end = block.in_buffer + block.bytes;
            EXPECT_LE(buffer_end, piece.bytes);
            for (int64_t i = 0; i < block.bytes; ++i) ++seen[size_t(block.in_file + i)];
          }
          for (const OffloadRun& run : piece.runs) {
            EXPECT_EQ(run.first, next[run.owned]);
            EXPECT_EQ(run.first % kNormChunk, 0);
            EXPECT_EQ(run.master >= 0, compute == DType::BF16);
            next[run.owned] += run.count;
          }
        }
        for (size_t i = 0; i < next.size(); ++i) EXPECT_EQ(next[i], chunk.owned[i].count);
        for (const TensorSpec& tensor : chunk.tables.optimizer.tensors()) {
          for (int64_t i = 0; i < tensor.bytes(); ++i) {
            ASSERT_EQ(seen[size_t(tensor.offset + i)], 1) << tensor.name;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace trireme
