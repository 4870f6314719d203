#include "kernels/attention/attention_fixture.h"

namespace trireme {
namespace {

TEST(Attention, AgreesWithReferenceForEveryInstructionSetAndDType) {
  for_every_attention(expect_the_reference);
}

// Tests units of whole pairs (one thread) and separate units for keys and queries (several threads
// and an odd number of units).
TEST(Attention, BitsDoNotDependOnThreads) {
  TestStream one(1), two(2), four(4);
  for_every_case([&](const KernelTable& kernels, AttentionOperands& want, DType) {
    AttentionOperands untouched = want;
    kernels.attention_forward(one.stream, want.forward());
    kernels.attention_backward(one.stream, want.backward());
    for (TestStream* threads : {&two, &four}) {
      AttentionOperands got = untouched;
      kernels.attention_forward(threads->stream, got.forward());
      kernels.attention_backward(threads->stream, got.backward());
      ASSERT_TRUE(got.out == want.out);
      ASSERT_TRUE(got.lse == want.lse);
      ASSERT_EQ(got.max, want.max);
      ASSERT_TRUE(got.delta == want.delta);
      ASSERT_TRUE(got.dqkv == want.dqkv);
    }
  });
}

// The output of a query is the same if it is computed alone after its keys, as in decoding.
TEST(Attention, BitsOfAQueryDoNotDependOnTheOthers) {
  TestStream threads(2);
  for_every_case([&](const KernelTable& kernels, AttentionOperands& want, DType) {
    if (want.shape.num_sequences != 1 || !want.shape.causal) return;
    const AttentionOperands start = want;
    kernels.attention_forward(threads.stream, want.forward());
    const int64_t before = want.shape.kv_len - want.shape.q_len;
    for (const int64_t growth : {0, 2}) {  // each query alone, and more and more of them
      AttentionOperands got = start;
      for (int64_t first = 0, count = 1; first < want.shape.q_len;
           first += count, count += growth) {
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
      ASSERT_EQ(got.max, want.max);
    }
  });
}

// The largest logit is the largest one that a query sees, and asking for it changes no other bit.
TEST(Attention, TheLargestLogitIsThatOfAVisibleKey) {
  TestStream threads(2);
  for_every_case([&](const KernelTable& kernels, AttentionOperands& want, DType) {
    AttentionOperands got = want;
    kernels.attention_forward(threads.stream, want.forward());
    AttentionForwardArgs without = got.forward();
    without.max_H = {};
    kernels.attention_forward(threads.stream, without);
    ASSERT_TRUE(got.out == want.out && got.lse == want.lse);
    ASSERT_EQ(got.max, std::vector<float>(got.max.size(), -INFINITY));
    for (size_t head = 0; head < want.max.size(); ++head) {
      float largest_lse = -INFINITY;
      for (int64_t t = 0; t < want.q_rows; ++t) {
        largest_lse = std::max(largest_lse, want.lse.get(0, int64_t(head) * want.q_rows + t));
      }
      // A log-sum-exp lies above its largest term, by the logarithm of the number of terms at most.
      ASSERT_LE(want.max[head], largest_lse + 1e-4f * std::abs(largest_lse));
      ASSERT_GE(want.max[head], largest_lse - std::log(float(want.shape.kv_len)) - 1e-4f);
    }
  });
}

// Attention over parts of the keys, merged, equals attention over all keys. With the merged lse
// each part gives the gradients of its keys and its share of the gradients of the queries.
TEST(Attention, PartsOfTheKeysMergeToTheWhole) {
  TestStream threads(2);
  for_every_case([&](const KernelTable& kernels, AttentionOperands& whole, DType dtype) {
    if (whole.shape.num_sequences != 1 || whole.shape.causal) return;
    AttentionOperands parts = whole;
    kernels.attention_forward(threads.stream, whole.forward());
    kernels.attention_backward(threads.stream, whole.backward());
    const int64_t heads = whole.shape.num_heads, rows = whole.q_rows;
    RandomMatrix out(DType::F32, rows, whole.out_cols, 5, 7, 0.0f),
        lse(DType::F32, heads, rows, 3, 8);
    RandomMatrix part_out(dtype, rows, whole.out_cols, 0, 9);
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
      for (int64_t c = 0; c < whole.out_cols; ++c) parts.out.set(t, c, out.get(t, c));
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
    AttentionOperands want(attention_shape(1, 100, 100, 2, 1, 20), DType::BF16, 0.0f);
    AttentionOperands got = want;
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
    for (DType dtype : kAttentionDTypes) {
      AttentionOperands want(attention_shape(1, 150, 150, 1, 1, 16), dtype, 0.0f);
      want.shape.scale = 60.0f;
      AttentionOperands got = want;
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
      AttentionOperands operands(shape, DType::F32, probability);
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
  AttentionOperands operands(attention_shape(1, 4, 4, 2, 1, 8), DType::F32, 0.0f);
  AttentionForwardArgs args = operands.forward();
  args.shape.num_kv_heads = 2;
  EXPECT_THROW(attention_forward_ref(threads.stream, args), ContractError);
}

}  // namespace
}  // namespace trireme
