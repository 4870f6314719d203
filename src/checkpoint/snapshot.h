#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "checkpoint/save.h"

namespace trireme {

// Copies the pieces into the buffer, one behind the other, and hashes every byte while it is in the
// cache. Returns the same pieces with their data in the buffer and with their checksums, so that
// write_shards notices a copy that has changed before it reaches the disk. The buffer must hold the
// bytes of all pieces.
std::vector<TensorPiece> copy_pieces(std::span<const TensorPiece> pieces,
                                     std::span<std::byte> buffer);

}  // namespace trireme
