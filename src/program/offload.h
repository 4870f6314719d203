#pragma once

#include <vector>

#include "program/check.h"
#include "schema/program.h"

namespace trireme {

// For each chunk of a rank, the number of pieces of optimizer state that are kept in a file; empty
// if nothing is offloaded. Pieces of all chunks use kStagingBuffers buffers in turn.
using OffloadShape = std::vector<int>;

// After Step, which then only computes the norm, every piece is updated in a staging buffer.
// Meanwhile the next piece is fetched and the one before is written back:
// Fetch0 Fetch1 Step Step0 Offload0 Fetch2 Step1 Offload1 ... Keeps the order of everything else.
Program add_offload(const Program& program, const OffloadShape& num_pieces);

// Rule "offload": every piece is fetched, updated after Step and written back, once and in this
// order, in a buffer that no other piece uses.
std::vector<Problem> check_offload(const Program& program, const OffloadShape& num_pieces);

// Returns the index of the buffer that a piece uses.
int staging_buffer_of(const OffloadShape& num_pieces, int chunk, int piece);

}  // namespace trireme
