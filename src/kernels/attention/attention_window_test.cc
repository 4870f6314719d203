#include <cmath>

#include "kernels/attention/attention_fixture.h"

namespace trireme {
namespace {

// The first keys of queries in documents of these lengths, the last one repeated, for as many keys
// as queries.
struct Documents {
  std::vector<int64_t> lengths;

  int64_t begin_of(int64_t token) const {
    int64_t begin = 0;
    for (size_t d = 0;; ++d) {
      const int64_t length = lengths[std::min(d, lengths.size() - 1)];
      if (token < begin + length) return begin;
      begin += length;
    }
  }
};

// A causal query sees a key at least; others may see none.
void set_documents(AttentionOperands& o, const Documents& documents) {
  const int64_t before = o.shape.kv_len - o.shape.q_len;
  o.set_window([&](int64_t query) {
    if (o.shape.causal) return documents.begin_of(before + query);
    return std::min(documents.begin_of(2 * query), o.shape.kv_len);
  });
}

template <typename Body>  // body(documents)
void for_every_set_of_documents(Body&& body) {
  for (const Documents& documents : {Documents{{3, 60, 1, 1, 100}}, Documents{{70}}}) {
    body(documents);
    if (testing::Test::HasFatalFailure()) return;
  }
}

template <typename Body>  // body(kernels, operands, dtype)
void for_every_window(Body&& body) {
  for_every_set_of_documents([&](const Documents& documents) {
    for_every_case([&](const KernelTable& kernels, AttentionOperands& o, DType dtype) {
      set_documents(o, documents);
      body(kernels, o, dtype);
    });
  });
}

TEST(AttentionWindow, AgreesWithReferenceForEveryInstructionSetAndDType) {
  for_every_set_of_documents([](const Documents& documents) {
    for_every_attention([&](AttentionOperands& o, DType dtype) {
      set_documents(o, documents);
      expect_the_reference(o, dtype);
    });
  });
}

TEST(AttentionWindow, BitsDoNotDependOnThreads) {
  TestStream one(1), four(4);
  for_every_window([&](const KernelTable& kernels, AttentionOperands& want, DType) {
    AttentionOperands got = want;
    kernels.attention_forward(one.stream, want.forward());
    kernels.attention_backward(one.stream, want.backward());
    kernels.attention_forward(four.stream, got.forward());
    kernels.attention_backward(four.stream, got.backward());
    ASSERT_TRUE(got.out == want.out);
    ASSERT_TRUE(got.lse == want.lse);
    ASSERT_TRUE(got.dqkv == want.dqkv);
  });
}

// Values that a query does not see may be anything, even if it is the only query. Its heads read
// keys and values in place, or packed ones if eight share a kv head.
TEST(AttentionWindow, AQueryThatSeesNoKeyReadsNoValue) {
  TestStream threads(1);
  for (const Isa isa : supported_isas()) {
    for (const DType dtype : kAttentionDTypes) {
      for (const auto& [heads, kv_heads] : {std::pair(2, 2), {2, 1}, {8, 1}}) {
        AttentionOperands o(not_causal(attention_shape(1, 1, 70, heads, kv_heads, 16)), dtype,
                            0.0f);
        o.set_window([&](int64_t) { return o.shape.kv_len; });
        for (int64_t row = 0; row < o.kv_rows; ++row) {
          for (int64_t col = o.q_cols; col < o.qkv.cols(); ++col) o.qkv.set(row, col, NAN);
        }
        cpu_kernels(isa).attention_forward(threads.stream, o.forward());
        for (int64_t col = 0; col < o.out.cols(); ++col) ASSERT_EQ(o.out.get(0, col), 0.0f);
      }
    }
  }
}

// One document is what no window is, bit for bit.
TEST(AttentionWindow, OfAllKeysIsNoWindow) {
  TestStream threads(2);
  for_every_case([&](const KernelTable& kernels, AttentionOperands& want, DType) {
    AttentionOperands got = want;
    got.set_window([](int64_t) { return int64_t{0}; });
    for (AttentionOperands* o : {&want, &got}) {
      kernels.attention_forward(threads.stream, o->forward());
      kernels.attention_backward(threads.stream, o->backward());
    }
    ASSERT_TRUE(got.out == want.out);
    ASSERT_TRUE(got.lse == want.lse);
    ASSERT_TRUE(got.dqkv == want.dqkv);
  });
}

constexpr int64_t kPacked = 330;

AttentionOperands packed(DType dtype, const Documents& documents) {
  AttentionOperands o(attention_shape(1, kPacked, kPacked, 4, 2, 24), dtype, 0.0f);
  set_documents(o, documents);
  return o;
}

void run(const KernelTable& kernels, Stream& stream, AttentionOperands& o) {
  kernels.attention_forward(stream, o.forward());
  kernels.attention_backward(stream, o.backward());
}

// Whatever stands in one document, no bit of another one's results or gradients changes.
TEST(AttentionWindow, DocumentsDoNotSeeEachOther) {
  TestStream threads(2);
  constexpr int64_t kBorder = 101;
  const auto is_first = [](int64_t row) { return row < kBorder; };
  for (Isa isa : supported_isas()) {
    for (DType dtype : kAttentionDTypes) {
      for (bool changes_first : {true, false}) {
        AttentionOperands want = packed(dtype, {{kBorder, kPacked}}), got = want;
        for (int64_t row = 0; row < kPacked; ++row) {
          if (is_first(row) != changes_first) continue;
          for (int64_t c = 0; c < got.qkv.cols(); ++c) got.qkv.set(row, c, 50.0f - float(c % 9));
          for (int64_t c = 0; c < got.dout.cols(); ++c) got.dout.set(row, c, 30.0f);
        }
        run(cpu_kernels(isa), threads.stream, want);
        run(cpu_kernels(isa), threads.stream, got);
        for (int64_t row = 0; row < kPacked; ++row) {
          if (is_first(row) == changes_first) continue;
          for (int64_t c = 0; c < want.out.cols(); ++c) {
            ASSERT_EQ(got.out.get(row, c), want.out.get(row, c)) << name_of(isa) << " " << row;
          }
          for (int64_t c = 0; c < want.dqkv.cols(); ++c) {
            ASSERT_EQ(got.dqkv.get(row, c), want.dqkv.get(row, c)) << name_of(isa) << " " << row;
          }
        }
      }
    }
  }
}

// Of a document that begins at a multiple of a tile of 64 keys the packed results have the bits of
// the document alone; elsewhere the sums have another order.
TEST(AttentionWindow, APackedDocumentIsTheDocumentAlone) {
  TestStream threads(2);
  for (Isa isa : supported_isas()) {
    for (DType dtype : kAttentionDTypes) {
      for (const int64_t begin : {int64_t{64}, int64_t{192}, int64_t{75}}) {
        AttentionOperands whole = packed(dtype, {{begin, kPacked}});
        AttentionOperands alone = whole;
        const int64_t rows = kPacked - begin;
        alone.shape.q_len = alone.shape.kv_len = alone.q_rows = alone.kv_rows = rows;
        alone.first.clear();
        alone.lse = alone.delta = RandomMatrix(DType::F32, 1, 4 * rows, 0, 5);
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t c = 0; c < whole.qkv.cols(); ++c) {
            alone.qkv.set(row, c, whole.qkv.get(begin + row, c));
          }
          for (int64_t c = 0; c < whole.dout.cols(); ++c) {
            alone.dout.set(row, c, whole.dout.get(begin + row, c));
          }
        }
        const auto rows_of_alone = [&](auto args) {
          args.out_T_HD = rows_of(args.out_T_HD, 0, rows);
          return args;
        };
        run(cpu_kernels(isa), threads.stream, whole);
        cpu_kernels(isa).attention_forward(threads.stream, rows_of_alone(alone.forward()));
        AttentionBackwardArgs backward = rows_of_alone(alone.backward());
        backward.dout_T_HD = rows_of(backward.dout_T_HD, 0, rows);
        cpu_kernels(isa).attention_backward(threads.stream, backward);
        const float bound = begin % 64 == 0        ? 0.0f
                            : dtype == DType::F32  ? 4e-6f
                            : dtype == DType::BF16 ? 0.06f
                                                   : 0.006f;
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t c = 0; c < whole.out.cols(); ++c) {
            ASSERT_NEAR(whole.out.get(begin + row, c), alone.out.get(row, c), bound)
                << name_of(isa) << " " << name_of(dtype) << " " << begin << " " << row;
          }
          for (int64_t c = 0; c < whole.dqkv.cols(); ++c) {
            ASSERT_NEAR(whole.dqkv.get(begin + row, c), alone.dqkv.get(row, c), bound)
                << name_of(isa) << " " << name_of(dtype) << " " << begin << " " << row;
          }
        }
      }
    }
  }
}

// As Attention.ReferenceBackwardIsTheDerivativeOfForward.
TEST(AttentionWindow, ReferenceBackwardIsTheDerivativeOfForward) {
  TestStream threads(1);
  for (const AttentionShape& shape :
       {attention_shape(2, 5, 5, 2, 1, 3), not_causal(attention_shape(1, 5, 4, 2, 1, 3))}) {
    AttentionOperands o(shape, DType::F32, 0.3f);
    set_documents(o, {{2}});
    const auto loss = [&] {
      attention_forward_ref(threads.stream, o.forward());
      double sum = 0.0;
      for (int64_t row = 0; row < o.out.rows(); ++row) {
        for (int64_t c = 0; c < o.out.cols(); ++c) {
          sum += double(o.out.get(row, c)) * o.dout.get(row, c);
        }
      }
      return sum;
    };
    loss();
    attention_backward_ref(threads.stream, o.backward());
    for (int64_t row = 0; row < o.qkv.rows(); ++row) {
      for (int64_t c = 0; c < o.qkv.cols(); ++c) {
        if (row >= (c < o.q_cols ? o.q_rows : o.kv_rows)) continue;
        constexpr float kStep = 1.0f / 128.0f;
        const float x = o.qkv.get(row, c);
        o.qkv.set(row, c, x + kStep);
        const double above = loss();
        o.qkv.set(row, c, x - kStep);
        const double below = loss();
        o.qkv.set(row, c, x);
        ASSERT_NEAR((above - below) / (2.0 * kStep), o.dqkv.get(row, c), 3e-4) << row << ", " << c;
      }
    }
  }
}

TEST(AttentionWindow, RefusesBoundsThatDecreaseOrLeaveNoKey) {
  TestStream threads(1);
  for (const std::vector<int32_t>& first :
       {std::vector<int32_t>{0, 1001, 0, 0}, std::vector<int32_t>{0, 1002, 1002, 1002},
        std::vector<int32_t>{0, 0, 0}}) {
    AttentionOperands o(attention_shape(1, 4, 4, 2, 1, 8), DType::F32, 0.0f);
    o.first = first;
    EXPECT_THROW(attention_forward_ref(threads.stream, o.forward()), ContractError);
    EXPECT_THROW(attention_backward_ref(threads.stream, o.backward()), ContractError);
  }
}

TEST(PositionMap, FindsTheFirstIndexFromAPosition) {
  for (const PositionMap& map : {PositionMap{}, PositionMap{7}, PositionMap{1000, 13, 500}}) {
    for (int64_t position = 0; position < 1600; ++position) {
      const int64_t index = map.first_from(position);
      EXPECT_GE(map.of(index), position);
      EXPECT_LT(map.of(index - 1), position);
    }
  }
}

}  // namespace
}  // namespace trireme
