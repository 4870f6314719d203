#pragma once

#include <cstdint>
#include <vector>

#include "spec/chunk_tables.h"

namespace trireme {

// Staging buffers of what lies in a file: one is read, one updated, one written back.
inline constexpr int kStagingBuffers = 3;

// Pieces of a chunk's optimizer state, each of at most buffer_bytes (but of kNormChunk elements at
// least), in the order of its owned parameters. Together they hold every element once.
std::vector<OffloadPiece> offload_pieces(const ChunkTables& chunk, int64_t buffer_bytes);

// Bytes of the pieces' blocks, which Fetch reads and Offload writes in every step.
int64_t block_bytes(const OffloadPiece& piece);

}  // namespace trireme
