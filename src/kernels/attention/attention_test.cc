#include <gtest/gtest.h>

#include <cmath>

#include "kernels/attention/attention_cases.h"
#include "kernels/kernel_table.h"
#include "kernels/random_matrix.h"
#include "kernels/test_stream.h"

namespace trireme {
namespace {

constexpr DType kDTypes[] = {DType::F32, DType::BF16, DType::F16};

// The matrices of one attention. If q_len equals kv_len, q, k and v are columns of one matrix, as a
// fused projection writes them; otherwise they are separate. NaN surrounds all of them.
struct Operands {
  Operands(const AttentionShape& shape, DType dtype, float dropout_probability)
      : shape(shape),
        dropout{dropout_probability, {77}, 5, 2, {3000, 21, 700}, {1000, 13, 500}},
        q_rows(shape.num_sequences * shape.q_len),
        kv_rows(shape.num_sequences * shape.kv_len),
        q_cols(shape.num_heads * shape.head_dim),
        kv_cols(shape.num_kv_heads * shape.head_dim),
        qkv(dtype, std::max(q_rows, kv_rows), q_cols + 2 * kv_cols, 3, 1, 1.5f),
        dqkv(dtype, std::max(q_rows, kv_rows), q_cols + 2 * kv_cols, 3, 2),
        out(dtype, q_rows, q_cols, 1, 3),
        dout(dtype, q_rows, q_cols, 2, 4),
        lse(DType::F32, 1, shape.num_heads * q_rows, 0, 5),
        delta(DType::F32, 1, shape.num_heads * q_rows, 0, 6) {}

  MatrixRef part(RandomMatrix& x, int index) const {
    const int64_t begin = index == 0 ? 0 : q_cols + (index - 1) * kv_cols;
    const MatrixRef cols = cols_of(x, begin, index == 0 ? q_cols : kv_cols);
    return rows_of(cols, 0, index == 0 ? q_rows : kv_rows);
  }
  AttentionForwardArgs forward() {
    return {shape, dropout, part(qkv, 0), part(qkv, 1), part(qkv, 2), out, lse.row()};
  }
  AttentionBackwardArgs backward() {
    return {shape, dropout,   part(qkv, 0), part(qkv, 1),  part(qkv, 2),  out,
            dout,  lse.row(), delta.row(),  part(dqkv, 0), part(dqkv, 1), part(dqkv, 2)};
  }

  AttentionShape shape;
  AttentionDropout dropout;
  int64_t q_rows, kv_rows, q_cols, kv_cols;
  RandomMatrix qkv, dqkv, out, dout, lse, delta;
};

// Rounding errors are relative to the largest elements of a matrix: bf16 rounds probabilities,
// dscores and the result to 8 bits; fp32 sums a few hundred terms.
void expect_near(const RandomMatrix& got, const RandomMatrix& want, DType dtype) {
  float greatest = 0.0f;
  for (int64_t row = 0; row < want.rows(); ++row) {
    for (int64_t col = 0; col < want.cols(); ++col) {
      greatest = std::max(greatest, std::abs(want.get(row, col)));
    }
  }
  const float bound = greatest * (dtype == DType::BF16  ? 0.02f
                                  : dtype == DType::F16 ? 0.0025f
                                                        : 5e-6f) +
                      1e-6f;
  for (int64_t row = 0; row < want.rows(); ++row) {
    for (int64_t col = 0; col < want.cols(); ++col) {
      ASSERT_NEAR(got.get(row, col), want.get(row, col), bound) << row << ", " << col;
    }
  }
}

template <typename Body>  // body(kernels, operands, dtype)
void for_every_case(Body&& body) {
  for (Isa isa : supported_isas()) {
    for (DType dtype : kDTypes) {
      for (float dropout : {0.0f, 0.25f}) {
        for (const AttentionShape& shape : odd_attention_shapes()) {
          SCOPED_TRACE(std::string(name_of(isa)) + " " + std::string(name_of(dtype)) + " " +
                       text_of(shape) + " dropout " + std::to_string(dropout));
          Operands operands(shape, dtype, dropout);
          body(cpu_kernels(isa), operands, dtype);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(Attention, AgreesWithReferenceForEveryInstructionSetAndDType) {
  TestStream threads(2);
  for_every_case([&](const KernelTable& kernels, Operands& got, DType dtype) {
    Operands want = got;
    attention_forward_ref(threads.stream, want.forward());
    kernels.attention_forward(threads.stream, got.forward());
    expect_near(got.out, want.out, dtype);
    expect_near(got.lse, want.lse, dtype);
    if (testing::Test::HasFatalFailure()) return;
    attention_backward_ref(threads.stream, want.backward());
    kernels.attention_backward(threads.stream, got.backward());
    expect_near(got.delta, want.delta, dtype);
    expect_near(got.dqkv, want.dqkv, dtype);
  });
}

// Tests units of whole pairs (one thread) and separate units for keys and queries (several threads
// and an odd number of units).
TEST(Attention, BitsDoNotDependOnThreads) {
  TestStream one(1), two(2), four(4);
  for_every_case([&](const KernelTable& kernels, Operands& want, DType) {
    Operands untouched = want;
    kernels.attention_forward(one.stream, want.forward());
    kernels.attention_backward(one.stream, want.backward());
    for (TestStream* threads : {&two, &four}) {
      Operands got = untouched;
      kernels.attention_forward(threads->stream, got.forward());
      kernels.attention_backward(threads->stream, got.backward());
      ASSERT_TRUE(got.out == want.out);
      ASSERT_TRUE(got.lse == want.lse);
      ASSERT_TRUE(got.delta == want.delta);
      ASSERT_TRUE(got.dqkv == want.dqkv);
    }
  });
}

// The output of a query is the same if it is computed alone after its keys, as in decoding.
TEST(Attention, BitsOfAQueryDoNotDependOnTheOthers) {
  TestStream threads(2);
  for_every_case([&](const KernelTable& kernels, Operands& want, DType) {
    if (want.shape.num_sequences != 1 || !want.shape.causal) return;
    Operands got = want;
    kernels.attention_forward(threads.stream, want.forward());
    const int64_t before = want.shape.kv_len - want.shape.q_len;
    for (int64_t first = 0, count = 1; first < want.shape.q_len; first += count, count += 2) {
      AttentionForwardArgs part = got.forward();
      part.shape.q_len = std::min(count, want.shape.q_len - first);
      part.shape.kv_len = before + first + part.shape.q_len;
      part.q_T_HD = rows_of(part.q_T_HD, first, part.shape.q_len);
      part.out_T_HD = rows_of(part.out_T_HD, first, part.shape.q_len);
      part.k_T_KD = rows_of(part.k_T_KD, 0, part.shape.kv_len);
      part.v_T_KD = rows_of(part.v_T_KD, 0, part.shape.kv_len);
      part.lse_HT = {};
      kernels.attention_forward(threads.stream, part);
    }
    ASSERT_TRUE(got.out == want.out);
  });
}

// Attention over parts of the keys, merged, equals attention over all keys. With the merged lse
// each part gives the gradients of its keys and its share of the gradients of the queries.
TEST(Attention, PartsOfTheKeysMergeToTheWhole) {
  TestStream threads(2);
  for_every_case([&](const KernelTable& kernels, Operands& whole, DType dtype) {
    if (whole.shape.num_sequences != 1 || whole.shape.causal) return;
    Operands parts = whole;
    kernels.attention_forward(threads.stream, whole.forward());
    kernels.attention_backward(threads.stream, whole.backward());
    const int64_t heads = whole.shape.num_heads, rows = whole.q_rows;
    RandomMatrix out(DType::F32, rows, whole.q_cols, 5, 7, 0.0f),
        lse(DType::F32, heads, rows, 3, 8);
    RandomMatrix part_out(dtype, rows, whole.q_cols, 0, 9);
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t t = 0; t < rows; ++t) lse.set(head, t, -INFINITY);
    }
    const int64_t kv_len = whole.shape.kv_len;
    const auto part_of = [&](auto args, int64_t begin, int64_t end) {
      args.shape.kv_len = end - begin;
      args.dropout.keys.offset += begin;
      args.dropout.keys.gap_at -= begin;
      args.dropout.queries.offset += kv_len - args.shape.kv_len;
      args.dropout.queries.gap_at -= kv_len - args.shape.kv_len;
      args.k_T_KD = rows_of(args.k_T_KD, begin, end - begin);
      args.v_T_KD = rows_of(args.v_T_KD, begin, end - begin);
      return args;
    };
    const int64_t borders[] = {0, kv_len / 3, kv_len / 3 + 1, kv_len};
    for (int i = 0; i < 3; ++i) {
      AttentionForwardArgs args = part_of(parts.forward(), borders[i], borders[i + 1]);
      args.out_T_HD = part_out;
      kernels.attention_forward(threads.stream, args);
      const MatrixRef part_lse{args.lse_HT.data, DType::F32, heads, rows, rows};
      kernels.attention_merge(threads.stream, {heads, part_out, part_lse, out, lse});
    }
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t t = 0; t < rows; ++t) parts.lse.set(0, head * rows + t, lse.get(head, t));
    }
    for (int64_t t = 0; t < rows; ++t) {
      for (int64_t c = 0; c < whole.q_cols; ++c) parts.out.set(t, c, out.get(t, c));
    }
    expect_near(parts.out, whole.out, dtype);
    expect_near(parts.lse, whole.lse, dtype);
    RandomMatrix dq(DType::F32, rows, whole.q_cols, 0, 9, 0.0f);
    for (int i = 0; i < 3; ++i) {
      AttentionBackwardArgs args = part_of(parts.backward(), borders[i], borders[i + 1]);
      args.dk_T_KD = rows_of(args.dk_T_KD, borders[i], borders[i + 1] - borders[i]);
      args.dv_T_KD = rows_of(args.dv_T_KD, borders[i], borders[i + 1] - borders[i]);
      kernels.attention_backward(threads.stream, args);
      for (int64_t t = 0; t < rows; ++t) {
        for (int64_t c = 0; c < whole.q_cols; ++c) {
          dq.set(t, c, dq.get(t, c) + parts.dqkv.get(t, c));
        }
      }
    }
    for (int64_t t = 0; t < rows; ++t) {
      for (int64_t c = 0; c < whole.q_cols; ++c) parts.dqkv.set(t, c, dq.get(t, c));
    }
    expect_near(parts.dqkv, whole.dqkv, dtype);
  });
}

// Keys and values that a query may not see do not affect it, whatever they contain.
TEST(Attention, IsCausal) {
  TestStream threads(2);
  for (Isa isa : supported_isas()) {
    Operands want(attention_shape(1, 100, 100, 2, 1, 20), DType::BF16, 0.0f);
    Operands got = want;
    for (int64_t row = 50; row < 100; ++row) {
      for (int64_t col = 0; col < got.qkv.cols(); ++col) got.qkv.set(row, col, 1e30f);
    }
    cpu_kernels(isa).attention_forward(threads.stream, want.forward());
    cpu_kernels(isa).attention_forward(threads.stream, got.forward());
    for (int64_t row = 0; row < 50; ++row) {
      for (int64_t col = 0; col < want.out.cols(); ++col) {
        ASSERT_EQ(got.out.get(row, col), want.out.get(row, col));
      }
    }
  }
}

// With scores of several hundred, exponentials relative to a growing maximum neither overflow nor
// vanish.
TEST(Attention, LargeScoresStayFinite) {
  TestStream threads(1);
  for (Isa isa : supported_isas()) {
    for (DType dtype : kDTypes) {
      Operands want(attention_shape(1, 150, 150, 1, 1, 16), dtype, 0.0f);
      want.shape.scale = 60.0f;
      Operands got = want;
      attention_forward_ref(threads.stream, want.forward());
      cpu_kernels(isa).attention_forward(threads.stream, got.forward());
      // A score of 1,500 has an absolute error of 1e-4 in fp32, which gives the same relative error
      // of a probability.
      for (int64_t row = 0; row < 150; ++row) {
        for (int64_t col = 0; col < 16; ++col) {
          ASSERT_NEAR(got.out.get(row, col), want.out.get(row, col),
                      dtype == DType::BF16 ? 0.03 : 2e-3);
        }
      }
    }
  }
}

// Compares with dL/dx of L = sum(dout * out), by central differences of the reference in fp32.
TEST(Attention, ReferenceBackwardIsTheDerivativeOfForward) {
  TestStream threads(1);
  for (float probability : {0.0f, 0.3f}) {
    for (const AttentionShape& shape :
         {attention_shape(2, 5, 5, 2, 1, 3), attention_shape(1, 3, 7, 2, 2, 4),
          not_causal(attention_shape(1, 5, 4, 2, 1, 3))}) {
      Operands operands(shape, DType::F32, probability);
      const auto loss = [&] {
        attention_forward_ref(threads.stream, operands.forward());
        double sum = 0.0;
        for (int64_t row = 0; row < operands.out.rows(); ++row) {
          for (int64_t col = 0; col < operands.out.cols(); ++col) {
            sum += double(operands.out.get(row, col)) * operands.dout.get(row, col);
          }
        }
        return sum;
      };
      loss();
      attention_backward_ref(threads.stream, operands.backward());
      for (int64_t row = 0; row < operands.qkv.rows(); ++row) {
        for (int64_t col = 0; col < operands.qkv.cols(); ++col) {
          if (row >= (col < operands.q_cols ? operands.q_rows : operands.kv_rows)) continue;
          constexpr float kStep = 1.0f / 128.0f;
          const float x = operands.qkv.get(row, col);
          operands.qkv.set(row, col, x + kStep);
          const double above = loss();
          operands.qkv.set(row, col, x - kStep);
          const double below = loss();
          operands.qkv.set(row, col, x);
          ASSERT_NEAR((above - below) / (2.0 * kStep), operands.dqkv.get(row, col), 3e-4)
              << row << ", " << col;
        }
      }
    }
  }
}

TEST(Attention, CountsFlopsOfVisiblePairs) {
  EXPECT_EQ(attention_forward_flops(attention_shape(1, 4, 4, 1, 1, 8)), (1 + 2 + 3 + 4) * 4 * 8);
  EXPECT_EQ(attention_forward_flops(attention_shape(2, 2, 5, 3, 1, 8)), 6 * (4 + 5) * 4 * 8);
  EXPECT_EQ(attention_forward_flops(not_causal(attention_shape(2, 5, 2, 3, 1, 8))), 6 * 10 * 4 * 8);
}

TEST(Attention, RefusesShapesThatDoNotFit) {
  TestStream threads(1);
  Operands operands(attention_shape(1, 4, 4, 2, 1, 8), DType::F32, 0.0f);
  AttentionForwardArgs args = operands.forward();
  args.shape.num_kv_heads = 2;
  EXPECT_THROW(attention_forward_ref(threads.stream, args), ContractError);
}

}  // namespace
}  // namespace trireme
