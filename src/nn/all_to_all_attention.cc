#include "nn/all_to_all_attention.h"

#include "nn/frame.h"

namespace trireme {
namespace {

AttentionShape with_heads_of_one_rank(AttentionShape shape, const ContextChunks& chunks) {
  shape.num_heads /= chunks.cp;
  shape.num_kv_heads /= chunks.cp;
  shape.q_len = shape.kv_len = chunks.seq_len;
  return shape;
}

}  // namespace

AllToAllAttention::AllToAllAttention(const AttentionShape& local, const ContextChunks& chunks,
                                     const Frame& scratch)
    : whole_(with_heads_of_one_rank(local, chunks)),
      chunks_(chunks),
      q_width_(whole_.num_heads * whole_.head_dim),
      k_width_(whole_.num_kv_heads * whole_.head_dim),
      v_width_(whole_.num_kv_heads * whole_.out_dim()),
      out_width_(whole_.num_heads * whole_.out_dim()),
      send_(matrix(scratch.at("heads.send_TX"))),
      recv_(matrix(scratch.at("heads.recv_TX"))),
      heads_N_(matrix(scratch.at("heads.operands_NX"))),
      dheads_N_(matrix(scratch.at("heads.gradients_NX"))) {
  TRIREME_CHECK(local.num_heads % chunks.cp == 0 && local.num_kv_heads % chunks.cp == 0,
                "every rank has as many heads");
  TRIREME_CHECK(local.q_len == chunks.local_len() && local.kv_len == chunks.local_len(),
                "queries and keys are this rank's tokens");
}

// visit(rank, [T, width]): a rank's block of a buffer.
template <typename Visit>
void AllToAllAttention::for_each_block(const MatrixRef& buffer, int64_t width,
                                       Visit&& visit) const {
  const int64_t tokens = whole_.num_sequences * chunks_.local_len();
  const int64_t block_bytes = tokens * width * size_of(buffer.dtype);
  for (int rank = 0; rank < chunks_.cp; ++rank) {
    visit(rank, MatrixRef{static_cast<char*>(buffer.data) + rank * block_bytes, buffer.dtype,
                          tokens, width, width});
  }
}

// visit(rows of the block, rows of whole sequences): what a rank has of every sequence.
template <typename Visit>
void AllToAllAttention::for_each_chunk(int rank, const MatrixRef& block_TX,
                                       const MatrixRef& heads_N, Visit&& visit) const {
  const ContextChunks owner{chunks_.seq_len, chunks_.cp, rank};
  const int64_t first = owner.chunk_len(), second = owner.local_len() - first;
  for (int64_t s = 0; s < whole_.num_sequences; ++s) {
    const int64_t row = s * owner.local_len(), whole_row = s * owner.seq_len;
    visit(rows_of(block_TX, row, first),
          rows_of(heads_N, whole_row + owner.first_position(), first));
    visit(rows_of(block_TX, row + first, second),
          rows_of(heads_N, whole_row + owner.second_position(), second));
  }
}

void AllToAllAttention::exchange(Ctx& ctx, int64_t width) const {
  const Shape shape{chunks_.cp * whole_.num_sequences * chunks_.local_len() * width};
  ctx.cp.all_to_all({send_.data, send_.dtype, shape}, {recv_.data, recv_.dtype, shape});
}

void AllToAllAttention::to_heads(Ctx& ctx, std::span<const Operand> operands,
                                 const MatrixRef& heads_N) const {
  const auto copy = [&](const MatrixRef& from, const MatrixRef& to) {
    ctx.kernels.copy_matrix(ctx.stream, {from, to});
  };
  for_each_block(send_, heads_N.cols, [&](int rank, const MatrixRef& block_TX) {
    int64_t col = 0;
    for (const Operand& operand : operands) {
      copy(cols_of(operand.tokens_T, rank * operand.width, operand.width),
           cols_of(block_TX, col, operand.width));
      col += operand.width;
    }
  });
  exchange(ctx, heads_N.cols);
  for_each_block(recv_, heads_N.cols, [&](int rank, const MatrixRef& block_TX) {
    for_each_chunk(rank, block_TX, heads_N, copy);
  });
}

void AllToAllAttention::to_tokens(Ctx& ctx, const MatrixRef& heads_N,
                                  std::span<const Operand> operands) const {
  const auto copy = [&](const MatrixRef& from, const MatrixRef& to) {
    ctx.kernels.copy_matrix(ctx.stream, {from, to});
  };
  for_each_block(send_, heads_N.cols, [&](int rank, const MatrixRef& block_TX) {
    for_each_chunk(rank, block_TX, heads_N,
                   [&](const MatrixRef& block, const MatrixRef& whole) { copy(whole, block); });
  });
  exchange(ctx, heads_N.cols);
  for_each_block(recv_, heads_N.cols, [&](int rank, const MatrixRef& block_TX) {
    int64_t col = 0;
    for (const Operand& operand : operands) {
      copy(cols_of(block_TX, col, operand.width),
           cols_of(operand.tokens_T, rank * operand.width, operand.width));
      col += operand.width;
    }
  });
}

AttentionDropout AllToAllAttention::dropout_of(const AttentionDropout& dropout) const {
  AttentionDropout result = dropout;
  result.first_head += uint64_t(chunks_.rank * whole_.num_heads);
  return result;
}

// As many numbers: those of all heads and this rank's tokens, or of its heads and all tokens.
TensorRef AllToAllAttention::of_heads(const TensorRef& statistic_HT) const {
  return {statistic_HT.data, statistic_HT.dtype,
          Shape{whole_.num_heads, whole_.num_sequences * chunks_.seq_len}};
}

// The part of this rank's heads. The other ranks of cp raise the rest of their own.
TensorRef AllToAllAttention::max_of_heads(const TensorRef& max_H) const {
  if (!max_H) return {};
  return {max_H.as<float>() + chunks_.rank * whole_.num_heads, max_H.dtype,
          Shape{whole_.num_heads}};
}

void AllToAllAttention::forward(Ctx& ctx, const ContextForward& f) const {
  TRIREME_CHECK(ctx.cp.size() == chunks_.cp && ctx.cp.rank() == chunks_.rank,
                "the chunks are this rank's");
  const MatrixRef qkv_N = cols_of(heads_N_, 0, qkv_width());
  const MatrixRef out_N = cols_of(heads_N_, qkv_N.cols, out_width_);
  const Operand qkv[] = {{f.q_TQ, q_width_}, {f.k_TK, k_width_}, {f.v_TK, v_width_}};
  to_heads(ctx, qkv, qkv_N);
  ctx.kernels.attention_forward(ctx.stream, {whole_,
                                             dropout_of(f.dropout),
                                             q_of(qkv_N),
                                             k_of(qkv_N),
                                             v_of(qkv_N),
                                             out_N,
                                             of_heads(f.lse_HT),
                                             {f.documents.first_N},
                                             max_of_heads(f.max_H)});
  const Operand out[] = {{f.out_TQ, out_width_}};
  to_tokens(ctx, out_N, out);
}

void AllToAllAttention::backward(Ctx& ctx, const ContextBackward& b) const {
  const Operand operands[] = {{b.q_TQ, q_width_},
                              {b.k_TK, k_width_},
                              {b.v_TK, v_width_},
                              {b.out_TQ, out_width_},
                              {b.dout_TQ, out_width_}};
  to_heads(ctx, operands, heads_N_);
  ctx.kernels.attention_backward(ctx.stream,
                                 {whole_,
                                  dropout_of(b.dropout),
                                  q_of(heads_N_),
                                  k_of(heads_N_),
                                  v_of(heads_N_),
                                  cols_of(heads_N_, qkv_width(), out_width_),
                                  cols_of(heads_N_, qkv_width() + out_width_, out_width_),
                                  of_heads(b.lse_HT),
                                  of_heads(b.delta_HT),
                                  q_of(dheads_N_),
                                  k_of(dheads_N_),
                                  v_of(dheads_N_),
                                  {b.documents.first_N}});
  const Operand gradients[] = {{b.dq_TQ, q_width_}, {b.dk_TK, k_width_}, {b.dv_TK, v_width_}};
  to_tokens(ctx, dheads_N_, gradients);
}

}  // namespace trireme
