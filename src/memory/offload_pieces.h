#pragma once

#include <cstdint>
#include <vector>

#include "memory/chunk_tables.h"

namespace trireme {

// Staging buffers of what lies in a file: one is read, one updated, one written back.
inline constexpr int kStagingBuffers = 3;

// A chunk's part of the file: the optimizer's table, then, where they lie there, its parameters.
int64_t params_in_file_begin(const ChunkTables& chunk);
int64_t file_bytes(const ChunkTables& chunk);

// Pieces of a chunk's optimizer state (and parameters, where they lie in the file), each of at most
// buffer_bytes (but of kNormChunk elements at least), in the order of its owned parameters.
// Together they hold every element once.
std::vector<OffloadPiece> offload_pieces(const ChunkTables& chunk, int64_t buffer_bytes);

// What a Fetch of a unit's group reads: from the file's parameters to where the group is gathered,
// in bytes from the start of the chunk's parameter table.
std::vector<OffloadBlock> unit_blocks(const ChunkTables& chunk, int first_unit);

// Bytes of the pieces' blocks, which Fetch reads and Offload writes in every step.
int64_t block_bytes(const std::vector<OffloadBlock>& blocks);

}  // namespace trireme
