#pragma once

#include <cstdint>

#include "base/check.h"

namespace trireme {

// The tokens of a sequence that a context-parallel rank has. A sequence is cut into 2 cp chunks,
// and rank r has the chunks r and 2 cp - 1 - r, one after the other. So the queries of every rank
// see the same number of keys. With cp = 1 this is the whole sequence.
struct ContextChunks {
  int64_t seq_len = 0;
  int cp = 1;
  int rank = 0;

  static bool fits(int64_t seq_len, int cp) { return seq_len % (int64_t{2} * cp) == 0 || cp == 1; }

  int64_t local_len() const { return seq_len / cp; }
  // Number of chunks of the whole sequence; this rank has the chunks `rank` and num_chunks() - 1 -
  // rank.
  int num_chunks() const { return 2 * cp; }
  int second_chunk() const { return num_chunks() - 1 - rank; }
  // Tokens of the rank's first chunk; its second chunk has the rest.
  int64_t chunk_len() const { return local_len() / 2; }
  int64_t first_position() const { return rank * chunk_len(); }
  int64_t second_position() const { return seq_len - (rank + 1) * (local_len() - chunk_len()); }
  int64_t position(int64_t local) const {
    return local < chunk_len() ? first_position() + local : second_position() + local - chunk_len();
  }
  // Converts token i of this rank's micro-batch to the index in the whole micro-batch. In both,
  // sequences follow each other.
  int64_t whole_token(int64_t i) const {
    return i / local_len() * seq_len + position(i % local_len());
  }
};

}  // namespace trireme
