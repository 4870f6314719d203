#pragma once

#include "kernels/attention/attention.h"
#include "nn/ctx.h"
#include "schema/context_chunks.h"

namespace trireme {

// Which queries of this rank see which keys of a rank whose turn it is in a ring, and the arguments
// of the kernel for them. Every sequence lies in two chunks on each rank (ContextChunks).
class RingPairs {
 public:
  // `local`: of this rank's tokens (q_len = kv_len = chunks.local_len()).
  RingPairs(const AttentionShape& local, const ContextChunks& chunks);

  // Queries and keys of one sequence that meet: all with all, or causally this rank's own.
  struct Pair {
    int64_t sequence;
    int64_t query, num_queries;  // rows of the sequence
    int64_t key, num_keys;
    bool is_causal = false;
  };
  // Whose keys are here after so many steps.
  ContextChunks owner_at(int step) const;
  Pair pair_of(const ContextChunks& keys, int64_t sequence) const;

  AttentionShape shape_of(const Pair& pair) const;
  AttentionDropout dropout_of(const AttentionDropout& dropout, const ContextChunks& keys,
                              const Pair& pair) const;
  // Returns what the pair's queries see of their documents.
  AttentionWindow window_of(const Documents& documents, const ContextChunks& keys,
                            const Pair& pair) const;

  const AttentionShape& local() const { return local_; }
  const ContextChunks& chunks() const { return chunks_; }
  int64_t query_row(const Pair& pair) const { return pair.sequence * local_.q_len + pair.query; }
  int64_t key_row(const Pair& pair) const { return pair.sequence * local_.q_len + pair.key; }

 private:
  AttentionShape local_;
  ContextChunks chunks_;
};

// A call's own statistics: one row for every head, as the kernels have them.
MatrixRef statistic_by_head(const TensorRef& statistic, int64_t num_heads, int64_t num_queries);
TensorRef flat_statistic(const TensorRef& statistic, int64_t num_heads, int64_t num_queries);

}  // namespace trireme
