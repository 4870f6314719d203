#pragma once

#include "kernels/position_map.h"
#include "schema/context_chunks.h"

namespace trireme {

inline PositionMap positions_of(const ContextChunks& chunks) {
  return {chunks.first_position(), chunks.chunk_len(),
          chunks.second_position() - chunks.first_position() - chunks.chunk_len()};
}

}  // namespace trireme
