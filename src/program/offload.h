#pragma once

#include <vector>

#include "program/check.h"
#include "spec/program.h"

namespace trireme {

// Pieces of the optimizer's state that a rank keeps in a file, [chunk]: none where nothing is
// offloaded. They pass through kStagingBuffers buffers in turns, over all chunks.
using OffloadShape = std::vector<int>;

// Behind Step, which then takes the norm alone, every piece is updated in a staging buffer; the one
// behind it is being fetched and the one before it written back meanwhile:
// Fetch0 Fetch1 Step Step0 Offload0 Fetch2 Step1 Offload1 ... Preserves the order of all else.
Program add_offload(const Program& program, const OffloadShape& num_pieces);

// "offload": every piece is fetched, updated behind Step and brought back, once and in this order,
// in a buffer that no other piece has.
std::vector<Problem> check_offload(const Program& program, const OffloadShape& num_pieces);

// The buffer that a piece passes through.
int staging_buffer_of(const OffloadShape& num_pieces, int chunk, int piece);

}  // namespace trireme
