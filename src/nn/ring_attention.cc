#include "nn/ring_attention.h"

#include <cstring>
#include <optional>

#include "nn/frame.h"
#include "nn/positions.h"

namespace trireme {
namespace {

// A call's own statistics: one row for every head, as the kernels have them.
MatrixRef by_head(const TensorRef& statistic, int64_t num_heads, int64_t num_queries) {
  return {statistic.data, DType::F32, num_heads, num_queries, num_queries};
}
TensorRef flat_statistic(const TensorRef& statistic, int64_t num_heads, int64_t num_queries) {
  return {statistic.data, DType::F32, Shape{num_heads, num_queries}};
}

// From this rank to the next and from the one before to this one, beside the computation. In a ring
// of one, a rank is its own neighbour.
class RingStep {
 public:
  RingStep(Group& cp, const MatrixRef& out, const MatrixRef& in, int tag) {
    const int next = (cp.rank() + 1) % cp.size(), before = (cp.rank() + cp.size() - 1) % cp.size();
    if (next == cp.rank()) {
      std::memcpy(in.data, out.data, size_t(flat(out).bytes()));
      return;
    }
    send_ = cp.start_send(flat(out), next, tag);
    recv_ = cp.start_recv(flat(in), before, tag);
  }
  void wait() {
    recv_.wait();
    send_.wait();
  }

 private:
  Work send_;
  Work recv_;
};

// From then on index 0 is what index `by` was.
void shift(PositionMap& map, int64_t by) {
  map.offset += by;
  map.gap_at -= by;
}

constexpr int kKeysTag = 0;
constexpr int kGradientsTag = 1;

}  // namespace

RingAttention::RingAttention(const AttentionShape& local, const ContextChunks& chunks,
                             const Frame& scratch)
    : local_(local),
      chunks_(chunks),
      kv_TW_{matrix(scratch.at("ring.kv_TW[0]")), matrix(scratch.at("ring.kv_TW[1]"))},
      dkv_TW_{matrix(scratch.at("ring.dkv_TW[0]")), matrix(scratch.at("ring.dkv_TW[1]"))},
      sum_TQ_(matrix(scratch.at("ring.sum_TQ"))),
      part_LQ_(matrix(scratch.at("ring.part_LQ"))),
      part_LW_(matrix(scratch.at("ring.part_LW"))),
      part_lse_HL_(scratch.at("ring.part_lse_HL")),
      part_delta_HL_(scratch.at("ring.part_delta_HL")) {
  TRIREME_CHECK(ContextChunks::fits(chunks.seq_len, chunks.cp),
                "a sequence is cut into two equal chunks for every rank");
  TRIREME_CHECK(local.q_len == chunks.local_len() && local.kv_len == chunks.local_len(),
                "queries and keys are this rank's tokens");
}

// Whose keys are here after so many steps.
ContextChunks RingAttention::owner_at(int step) const {
  return {chunks_.seq_len, chunks_.cp, (chunks_.rank + chunks_.cp - step) % chunks_.cp};
}

// Keys of a lower rank: their first chunk lies before both chunks of queries, their second behind
// both. Keys of a higher rank: both chunks lie between the two chunks of queries.
RingAttention::Pair RingAttention::pair_of(const ContextChunks& keys, int64_t sequence) const {
  const int64_t chunk = chunks_.chunk_len(), rest = chunks_.local_len() - chunk;
  if (keys.rank < chunks_.rank) return {sequence, 0, chunk + rest, 0, chunk};
  return {sequence, chunk, rest, 0, chunk + rest};
}

AttentionShape RingAttention::shape_of(const Pair& pair) const {
  AttentionShape shape = local_;
  shape.num_sequences = 1;
  shape.q_len = pair.num_queries;
  shape.kv_len = pair.num_keys;
  shape.causal = false;
  return shape;
}

// The maps of the whole ranges, seen from the pair's first query and key.
AttentionDropout RingAttention::dropout_of(const AttentionDropout& dropout,
                                           const ContextChunks& keys, const Pair& pair) const {
  AttentionDropout result = dropout;
  result.first_sample += uint64_t(pair.sequence);
  result.queries = positions_of(chunks_);
  result.keys = positions_of(keys);
  shift(result.queries, pair.query - (pair.num_keys - pair.num_queries));
  shift(result.keys, pair.key);
  return result;
}

AttentionWindow RingAttention::window_of(const Documents& documents, const ContextChunks& keys,
                                         const Pair& pair) const {
  if (!documents.first_T) return {};
  const int64_t row = pair.sequence * local_.q_len + pair.query;
  AttentionWindow window{
      {documents.first_T.as<int32_t>() + row, DType::I32, Shape{pair.num_queries}},
      positions_of(keys)};
  shift(window.keys, pair.key);
  return window;
}

AttentionWindow RingAttention::own_window(const Documents& documents) const {
  return {documents.first_T, positions_of(chunks_)};
}

AttentionDropout RingAttention::own_dropout(const AttentionDropout& dropout) const {
  AttentionDropout result = dropout;
  result.queries = result.keys = positions_of(chunks_);
  return result;
}

void RingAttention::pack(Ctx& ctx, const MatrixRef& k_TK, const MatrixRef& v_TK) const {
  ctx.kernels.copy_matrix(ctx.stream, {k_TK, keys(kv_TW_[0])});
  ctx.kernels.copy_matrix(ctx.stream, {v_TK, values(kv_TW_[0])});
}

void RingAttention::forward(Ctx& ctx, const ContextForward& f) const {
  Group& cp = ctx.cp;
  TRIREME_CHECK(cp.size() == chunks_.cp && cp.rank() == chunks_.rank, "the chunks are this rank's");
  pack(ctx, f.k_TK, f.v_TK);
  const MatrixRef lse_HT = by_head(f.lse_HT, local_.num_heads, f.q_TQ.rows);
  for (int step = 0; step < cp.size(); ++step) {
    const MatrixRef &kv_TW = kv_TW_[step % 2], &next_TW = kv_TW_[(step + 1) % 2];
    std::optional<RingStep> transfer;
    if (step + 1 < cp.size()) transfer.emplace(cp, kv_TW, next_TW, kKeysTag);
    if (step == 0) {
      ctx.kernels.attention_forward(
          ctx.stream, {local_, own_dropout(f.dropout), f.q_TQ, f.k_TK, f.v_TK, f.out_TQ, f.lse_HT,
                       own_window(f.documents), f.max_H});
      ctx.kernels.copy_matrix(ctx.stream, {f.out_TQ, outputs(sum_TQ_)});
    } else {
      const ContextChunks owner = owner_at(step);
      for (int64_t s = 0; s < local_.num_sequences; ++s) {
        attend(ctx, f, owner, pair_of(owner, s), kv_TW, lse_HT);
      }
    }
    if (transfer) transfer->wait();
  }
  ctx.kernels.copy_matrix(ctx.stream, {outputs(sum_TQ_), f.out_TQ});
}

void RingAttention::attend(Ctx& ctx, const ContextForward& f, const ContextChunks& owner,
                           const Pair& pair, const MatrixRef& kv_TW,
                           const MatrixRef& lse_HT) const {
  const int64_t L = local_.q_len, row = pair.sequence * L + pair.query;
  const MatrixRef kv = rows_of(kv_TW, pair.sequence * L + pair.key, pair.num_keys);
  const MatrixRef part = rows_of(outputs(part_LQ_), 0, pair.num_queries);
  ctx.kernels.attention_forward(
      ctx.stream,
      {shape_of(pair), dropout_of(f.dropout, owner, pair), rows_of(f.q_TQ, row, pair.num_queries),
       keys(kv), values(kv), part, flat_statistic(part_lse_HL_, local_.num_heads, pair.num_queries),
       window_of(f.documents, owner, pair), f.max_H});
  ctx.kernels.attention_merge(
      ctx.stream,
      {local_.num_heads, part, by_head(part_lse_HL_, local_.num_heads, pair.num_queries),
       rows_of(outputs(sum_TQ_), row, pair.num_queries), cols_of(lse_HT, row, pair.num_queries)});
}

void RingAttention::backward(Ctx& ctx, const ContextBackward& b) const {
  Group& cp = ctx.cp;
  TRIREME_CHECK(cp.size() == chunks_.cp && cp.rank() == chunks_.rank, "the chunks are this rank's");
  pack(ctx, b.k_TK, b.v_TK);
  for (int step = 0; step < cp.size(); ++step) {
    const MatrixRef &kv_TW = kv_TW_[step % 2], &next_TW = kv_TW_[(step + 1) % 2];
    const MatrixRef &dkv_TW = dkv_TW_[step % 2], &before_TW = dkv_TW_[(step + 1) % 2];
    std::optional<RingStep> transfer;
    if (step + 1 < cp.size()) transfer.emplace(cp, kv_TW, next_TW, kKeysTag);
    if (step == 0) {
      differentiate_own(ctx, b);
    } else {
      RingStep gradients(cp, before_TW, dkv_TW, kGradientsTag);
      const ContextChunks owner = owner_at(step);
      for (int64_t s = 0; s < local_.num_sequences; ++s) {
        const Pair pair = pair_of(owner, s);
        differentiate(ctx, b, owner, pair, kv_TW);
        if (s == 0) gradients.wait();  // not before this rank adds to them
        add_gradients(ctx, pair, dkv_TW);
      }
    }
    if (transfer) transfer->wait();
  }
  // One step more, and the gradients are home.
  const MatrixRef& home_TW = dkv_TW_[cp.size() % 2];
  RingStep(cp, dkv_TW_[(cp.size() + 1) % 2], home_TW, kGradientsTag).wait();
  ctx.kernels.copy_matrix(ctx.stream, {queries(sum_TQ_), b.dq_TQ});
  ctx.kernels.copy_matrix(ctx.stream, {keys(home_TW), b.dk_TK});
  ctx.kernels.copy_matrix(ctx.stream, {values(home_TW), b.dv_TK});
}

void RingAttention::differentiate_own(Ctx& ctx, const ContextBackward& b) const {
  ctx.kernels.attention_backward(
      ctx.stream, {local_, own_dropout(b.dropout), b.q_TQ, b.k_TK, b.v_TK, b.out_TQ, b.dout_TQ,
                   b.lse_HT, b.delta_HT, b.dq_TQ, b.dk_TK, b.dv_TK, own_window(b.documents)});
  ctx.kernels.copy_matrix(ctx.stream, {b.dq_TQ, queries(sum_TQ_)});
  ctx.kernels.copy_matrix(ctx.stream, {b.dk_TK, keys(dkv_TW_[0])});
  ctx.kernels.copy_matrix(ctx.stream, {b.dv_TK, values(dkv_TW_[0])});
}

// The pair's part of dq, dk and dv.
void RingAttention::differentiate(Ctx& ctx, const ContextBackward& b, const ContextChunks& owner,
                                  const Pair& pair, const MatrixRef& kv_TW) const {
  const int64_t L = local_.q_len, row = pair.sequence * L + pair.query, count = pair.num_queries;
  const MatrixRef kv = rows_of(kv_TW, pair.sequence * L + pair.key, pair.num_keys);
  const MatrixRef part_kv = rows_of(part_LW_, 0, pair.num_keys);
  const MatrixRef lse_HT = by_head(b.lse_HT, local_.num_heads, b.q_TQ.rows);
  ctx.kernels.copy_matrix(
      ctx.stream, {cols_of(lse_HT, row, count), by_head(part_lse_HL_, local_.num_heads, count)});
  ctx.kernels.attention_backward(
      ctx.stream,
      {shape_of(pair), dropout_of(b.dropout, owner, pair), rows_of(b.q_TQ, row, count), keys(kv),
       values(kv), rows_of(b.out_TQ, row, count), rows_of(b.dout_TQ, row, count),
       flat_statistic(part_lse_HL_, local_.num_heads, count),
       flat_statistic(part_delta_HL_, local_.num_heads, count),
       rows_of(queries(part_LQ_), 0, count), keys(part_kv), values(part_kv),
       window_of(b.documents, owner, pair)});
  ctx.kernels.copy_matrix(ctx.stream, {rows_of(queries(part_LQ_), 0, count),
                                       rows_of(queries(sum_TQ_), row, count), Write::Accumulate});
}

void RingAttention::add_gradients(Ctx& ctx, const Pair& pair, const MatrixRef& dkv_TW) const {
  const int64_t row = pair.sequence * local_.q_len + pair.key;
  ctx.kernels.copy_matrix(ctx.stream, {rows_of(part_LW_, 0, pair.num_keys),
                                       rows_of(dkv_TW, row, pair.num_keys), Write::Accumulate});
}

}  // namespace trireme
