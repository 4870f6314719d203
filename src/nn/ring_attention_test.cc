#include "nn/ring_attention.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "comm/world.h"
#include "kernels/own_stream.h"
#include "kernels/random_matrix.h"
#include "memory/stage_tables.h"
#include "nn/all_to_all_attention.h"
#include "nn/frame.h"

namespace trireme {
namespace {

struct Case {
  int64_t num_sequences, seq_len, heads, kv_heads, head_dim;
  float dropout;
  DType dtype;
};

// q, k, v and their gradients as columns of one matrix, as a fused projection has them.
struct Operands {
  Operands(const Case& c, int64_t tokens)
      : tokens(tokens),
        q_cols(c.heads * c.head_dim),
        kv_cols(c.kv_heads * c.head_dim),
        qkv(c.dtype, tokens, q_cols + 2 * kv_cols, 3, 1, 1.5f),
        dqkv(c.dtype, tokens, q_cols + 2 * kv_cols, 3, 2),
        out(c.dtype, tokens, q_cols, 1, 3),
        dout(c.dtype, tokens, q_cols, 2, 4),
        lse(DType::F32, 1, c.heads * tokens, 0, 5),
        delta(DType::F32, 1, c.heads * tokens, 0, 6) {}

  MatrixRef q(RandomMatrix& x) const { return cols_of(x, 0, q_cols); }
  MatrixRef k(RandomMatrix& x) const { return cols_of(x, q_cols, kv_cols); }
  MatrixRef v(RandomMatrix& x) const { return cols_of(x, q_cols + kv_cols, kv_cols); }

  int64_t tokens, q_cols, kv_cols;
  RandomMatrix qkv, dqkv, out, dout, lse, delta;
};

AttentionShape shape_of(const Case& c, int64_t length) {
  return {c.num_sequences,
          length,
          length,
          c.heads,
          c.kv_heads,
          c.head_dim,
          1.0f / std::sqrt(float(c.head_dim))};
}

AttentionDropout dropout_of(const Case& c) { return {c.dropout, {77}, 5, 2, {}, {}}; }

const KernelTable& fastest_kernels() {
  return supported_isas().empty() ? reference_kernels() : cpu_kernels(supported_isas().back());
}

// Every token on one rank, by the plain kernels.
Operands attend_alone(const Case& c) {
  OwnStream stream(1);
  Operands o(c, c.num_sequences * c.seq_len);
  const AttentionShape shape = shape_of(c, c.seq_len);
  const KernelTable& kernels = fastest_kernels();
  kernels.attention_forward(
      stream, {shape, dropout_of(c), o.q(o.qkv), o.k(o.qkv), o.v(o.qkv), o.out, o.lse.row()});
  kernels.attention_backward(
      stream, {shape, dropout_of(c), o.q(o.qkv), o.k(o.qkv), o.v(o.qkv), o.out, o.dout, o.lse.row(),
               o.delta.row(), o.q(o.dqkv), o.k(o.dqkv), o.v(o.dqkv)});
  return o;
}

void copy_row(const RandomMatrix& from, int64_t from_row, RandomMatrix& to, int64_t to_row) {
  for (int64_t col = 0; col < from.cols(); ++col) to.set(to_row, col, from.get(from_row, col));
}

// As a stage with these heads has it.
TensorTable scratch_table(const Case& c, int cp, ContextExchange exchange) {
  ModelSpec model;
  model.layers = 1;
  model.d_model = model.d_ff = model.vocab_size = 8;
  model.heads = c.heads;
  model.kv_heads = c.kv_heads;
  model.head_dim = model.v_head_dim = c.head_dim;
  model.seq_len = c.seq_len;
  StageShape shape{.micro_sequences = c.num_sequences, .compute = c.dtype};
  shape.cp = cp;
  shape.context_exchange = exchange;
  return stage_tables(model, whole_model(model), shape).scratch;
}

// The same on cp ranks, put together again.
template <typename Attention>
Operands attend_on(const Case& c, int cp, std::vector<Traffic>* traffic = nullptr) {
  Operands whole(c, c.num_sequences * c.seq_len);
  std::mutex mutex;
  run_ranks(cp, [&](World& world) {
    Group& group = world.group();
    const ContextChunks chunks{c.seq_len, cp, group.rank()};
    const int64_t L = chunks.local_len();
    Operands o(c, c.num_sequences * L);
    const auto row_of = [&](int64_t t) { return chunks.whole_token(t); };
    {
      const std::lock_guard lock(mutex);
      for (int64_t t = 0; t < o.tokens; ++t) {
        copy_row(whole.qkv, row_of(t), o.qkv, t);
        copy_row(whole.dout, row_of(t), o.dout, t);
      }
    }
    const AttentionShape local = shape_of(c, L);
    const TensorTable table =
        scratch_table(c, cp,
                      std::is_same_v<Attention, RingAttention> ? ContextExchange::Ring
                                                               : ContextExchange::AllToAll);
    Tensor scratch(DType::U8, Shape{table.bytes()});
    std::memset(scratch.ref().data, 0xff, size_t(table.bytes()));
    OwnStream stream(1);
    Ctx ctx{stream, fastest_kernels(), group, group, group, group};
    const Attention attention(local, chunks, Frame(table, scratch.ref().data));
    const Traffic start = group.traffic();
    attention.forward(ctx, {dropout_of(c), o.q(o.qkv), o.k(o.qkv), o.v(o.qkv), o.out, o.lse.row()});
    const Traffic middle = group.traffic();
    attention.backward(ctx, {dropout_of(c), o.q(o.qkv), o.k(o.qkv), o.v(o.qkv), o.out, o.dout,
                             o.lse.row(), o.delta.row(), o.q(o.dqkv), o.k(o.dqkv), o.v(o.dqkv)});
    const Traffic end = group.traffic();
    const std::lock_guard lock(mutex);
    if (traffic != nullptr) {
      traffic->push_back({middle.sent_bytes - start.sent_bytes, 0, 0, 0});
      traffic->push_back({end.sent_bytes - middle.sent_bytes, 0, 0, 0});
    }
    for (int64_t t = 0; t < o.tokens; ++t) {
      copy_row(o.out, t, whole.out, row_of(t));
      copy_row(o.dqkv, t, whole.dqkv, row_of(t));
      for (int64_t head = 0; head < c.heads; ++head) {
        whole.lse.set(0, head * whole.tokens + row_of(t), o.lse.get(0, head * o.tokens + t));
      }
    }
  });
  return whole;
}

double difference(const RandomMatrix& got, const RandomMatrix& want) {
  double differences = 0.0, squares = 0.0;
  for (int64_t row = 0; row < want.rows(); ++row) {
    for (int64_t col = 0; col < want.cols(); ++col) {
      differences += std::pow(double(got.get(row, col)) - want.get(row, col), 2.0);
      squares += std::pow(double(want.get(row, col)), 2.0);
    }
  }
  return std::sqrt(differences / squares);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const DType dtype : {DType::F32, DType::BF16, DType::F16}) {
    for (const float dropout : {0.0f, 0.25f}) {
      all.push_back({1, 48, 2, 2, 16, dropout, dtype});
      all.push_back({2, 200, 4, 2, 20, dropout, dtype});
      all.push_back({3, 400, 4, 1, 64, dropout, dtype});
    }
  }
  return all;
}

TEST(RingAttention, OutputsAndGradientsAreThoseOfOneRank) {
  for (const Case& c : cases()) {
    const Operands want = attend_alone(c);
    for (const int cp : {2, 4}) {
      SCOPED_TRACE(fmt::format("{} sequences of {}, {}/{} heads of {}, dropout {}, {}, cp {}",
                               c.num_sequences, c.seq_len, c.heads, c.kv_heads, c.head_dim,
                               c.dropout, name_of(c.dtype), cp));
      const Operands got = attend_on<RingAttention>(c, cp);
      const double bound = c.dtype == DType::F32 ? 2e-6 : 6e-3;
      EXPECT_LE(difference(got.out, want.out), bound);
      EXPECT_LE(difference(got.lse, want.lse), c.dtype == DType::F32 ? 1e-6 : 1e-4);
      EXPECT_LE(difference(got.dqkv, want.dqkv), bound);
    }
  }
}

// Forward: keys and values of T tokens over cp - 1 steps. Backward: the same, and their fp32
// gradients over cp steps.
TEST(RingAttention, TrafficFollowsTheClosedForm) {
  const Case c{2, 200, 4, 2, 20, 0.0f, DType::BF16};
  for (const int cp : {2, 4}) {
    std::vector<Traffic> traffic;
    attend_on<RingAttention>(c, cp, &traffic);
    const int64_t elements = 2 * c.kv_heads * c.head_dim * c.num_sequences * c.seq_len / cp;
    ASSERT_EQ(traffic.size(), size_t(2 * cp));
    for (size_t i = 0; i < traffic.size(); i += 2) {
      EXPECT_EQ(traffic[i].sent_bytes, elements * 2 * (cp - 1));
      EXPECT_EQ(traffic[i + 1].sent_bytes, elements * (2 * (cp - 1) + 4 * cp));
    }
  }
}

// Every head is computed as on one rank.
TEST(AllToAllAttention, OutputsAndGradientsHaveTheBitsOfOneRank) {
  int run = 0;
  for (const Case& c : cases()) {
    const Operands want = attend_alone(c);
    for (const int cp : {2, 4}) {
      if (c.kv_heads % cp != 0) continue;
      SCOPED_TRACE(fmt::format("{} sequences of {}, {}/{} heads of {}, dropout {}, {}, cp {}",
                               c.num_sequences, c.seq_len, c.heads, c.kv_heads, c.head_dim,
                               c.dropout, name_of(c.dtype), cp));
      const Operands got = attend_on<AllToAllAttention>(c, cp);
      EXPECT_EQ(difference(got.out, want.out), 0.0);
      EXPECT_EQ(difference(got.dqkv, want.dqkv), 0.0);
      ++run;
    }
  }
  EXPECT_GE(run, 2);
}

// Every rank keeps a part of what it has of q, k, v and out, and of the latter's and their
// gradients.
TEST(AllToAllAttention, TrafficFollowsTheClosedForm) {
  const Case c{2, 200, 4, 4, 20, 0.0f, DType::BF16};
  for (const int cp : {2, 4}) {
    std::vector<Traffic> traffic;
    attend_on<AllToAllAttention>(c, cp, &traffic);
    const int64_t width = c.heads * c.head_dim, tokens = c.num_sequences * c.seq_len / cp;
    for (size_t i = 0; i < traffic.size(); i += 2) {
      EXPECT_EQ(traffic[i].sent_bytes, 2 * tokens * 4 * width * (cp - 1) / cp);
      EXPECT_EQ(traffic[i + 1].sent_bytes, 2 * tokens * 8 * width * (cp - 1) / cp);
    }
  }
}

TEST(ContextChunks, EveryTokenIsOnOneRankAndEveryRankSeesAsManyPairs) {
  for (const int cp : {1, 2, 3, 4}) {
    const int64_t seq_len = 24;
    std::vector<int> owners(size_t(seq_len), 0);
    for (int rank = 0; rank < cp; ++rank) {
      const ContextChunks chunks{seq_len, cp, rank};
      int64_t pairs = 0;
      for (int64_t i = 0; i < chunks.local_len(); ++i) {
        ++owners[size_t(chunks.position(i))];
        pairs += chunks.position(i) + 1;
      }
      EXPECT_EQ(pairs * cp, seq_len * (seq_len + 1) / 2);
    }
    for (const int owner : owners) EXPECT_EQ(owner, 1);
  }
}

}  // namespace
}  // namespace trireme
