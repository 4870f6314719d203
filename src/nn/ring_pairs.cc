#include "nn/ring_pairs.h"

#include "base/check.h"
#include "nn/positions.h"

namespace trireme {
namespace {

// From then on index 0 is what index `by` was.
void shift(PositionMap& map, int64_t by) {
  map.offset += by;
  map.gap_at -= by;
}

}  // namespace

RingPairs::RingPairs(const AttentionShape& local, const ContextChunks& chunks)
    : local_(local), chunks_(chunks) {
  TRIREME_CHECK(ContextChunks::fits(chunks.seq_len, chunks.cp),
                "a sequence is cut into two equal chunks for every rank");
  TRIREME_CHECK(local.q_len == chunks.local_len() && local.kv_len == chunks.local_len(),
                "queries and keys are this rank's tokens");
}

ContextChunks RingPairs::owner_at(int step) const {
  return {chunks_.seq_len, chunks_.cp, (chunks_.rank + chunks_.cp - step) % chunks_.cp};
}

// Keys of a lower rank: their first chunk lies before both chunks of queries, their second behind
// both. Keys of a higher rank: both chunks lie between the two chunks of queries.
RingPairs::Pair RingPairs::pair_of(const ContextChunks& keys, int64_t sequence) const {
  const int64_t chunk = chunks_.chunk_len(), all = chunks_.local_len();
  if (keys.rank == chunks_.rank) return {sequence, 0, all, 0, all, true};
  if (keys.rank < chunks_.rank) return {sequence, 0, all, 0, chunk};
  return {sequence, chunk, all - chunk, 0, all};
}

AttentionShape RingPairs::shape_of(const Pair& pair) const {
  AttentionShape shape = local_;
  shape.num_sequences = 1;
  shape.q_len = pair.num_queries;
  shape.kv_len = pair.num_keys;
  shape.causal = pair.is_causal;
  return shape;
}

// The maps of the whole ranges, seen from the pair's first query and key.
AttentionDropout RingPairs::dropout_of(const AttentionDropout& dropout, const ContextChunks& keys,
                                       const Pair& pair) const {
  AttentionDropout result = dropout;
  result.first_sample += uint64_t(pair.sequence);
  result.queries = positions_of(chunks_);
  result.keys = positions_of(keys);
  shift(result.queries, pair.query - (pair.num_keys - pair.num_queries));
  shift(result.keys, pair.key);
  return result;
}

AttentionWindow RingPairs::window_of(const Documents& documents, const ContextChunks& keys,
                                     const Pair& pair) const {
  if (!documents.first_T) return {};
  AttentionWindow window{
      {documents.first_T.as<int32_t>() + query_row(pair), DType::I32, Shape{pair.num_queries}},
      positions_of(keys)};
  shift(window.keys, pair.key);
  return window;
}

MatrixRef statistic_by_head(const TensorRef& statistic, int64_t num_heads, int64_t num_queries) {
  return {statistic.data, DType::F32, num_heads, num_queries, num_queries};
}

TensorRef flat_statistic(const TensorRef& statistic, int64_t num_heads, int64_t num_queries) {
  return {statistic.data, DType::F32, Shape{num_heads, num_queries}};
}

}  // namespace trireme
