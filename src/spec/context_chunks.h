#pragma once

#include <cstdint>

#include "base/check.h"

namespace trireme {

// Which tokens of a sequence a context-parallel rank has. A sequence is cut into 2 cp chunks and
// rank r has chunks r and 2 cp - 1 - r, one behind the other: so every rank's queries see as many
// keys. On one rank that is the sequence as it is.
struct ContextChunks {
  int64_t seq_len = 0;
  int cp = 1;
  int rank = 0;

  static bool fits(int64_t seq_len, int cp) { return seq_len % (int64_t{2} * cp) == 0 || cp == 1; }

  int64_t local_len() const { return seq_len / cp; }
  // Of the whole sequence; this rank's are `rank` and the same from behind.
  int num_chunks() const { return 2 * cp; }
  int second_chunk() const { return num_chunks() - 1 - rank; }
  // Tokens of the first chunk; the second has the rest.
  int64_t chunk_len() const { return local_len() / 2; }
  int64_t first_position() const { return rank * chunk_len(); }
  int64_t second_position() const { return seq_len - (rank + 1) * (local_len() - chunk_len()); }
  int64_t position(int64_t local) const {
    return local < chunk_len() ? first_position() + local : second_position() + local - chunk_len();
  }
  // Token i of this rank's micro-batch in the whole one; both hold one sequence behind the other.
  int64_t whole_token(int64_t i) const {
    return i / local_len() * seq_len + position(i % local_len());
  }
};

}  // namespace trireme
