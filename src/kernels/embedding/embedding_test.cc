#include "kernels/embedding/embedding.h"

#include "kernels/embedding/embedding_cases.h"
#include "kernels/kernel_laws.h"

namespace trireme {
namespace {

struct Operands {
  Operands(DType dtype, const EmbeddingShape& shape, bool has_positions, DType grad = DType::F32)
      : seq_len(shape.seq_len),
        has_positions(has_positions),
        tokens(shape.num_tokens),
        table(dtype, shape.vocab_size, shape.d_model, 1, 1),
        positions(dtype, shape.seq_len, shape.d_model, 2, 2),
        y(dtype, shape.num_tokens, shape.d_model, 3, 3),
        dy(dtype, shape.num_tokens, shape.d_model, 0, 4),
        dtable(grad, shape.vocab_size, shape.d_model, 1, 5),
        dpositions(grad, shape.seq_len, shape.d_model, 2, 6) {
    for (int64_t t = 0; t < shape.num_tokens; ++t) tokens[t] = int32_t(t * t % shape.vocab_size);
  }
  bool operator==(const Operands&) const = default;

  TensorRef tokens_T() { return {tokens.data(), DType::I32, Shape{int64_t(tokens.size())}}; }
  EmbeddingForwardArgs forward() {
    return {tokens_T(), table, has_positions ? positions.ref() : MatrixRef{}, seq_len, y};
  }
  EmbeddingBackwardArgs backward(Write write) {
    return {tokens_T(), dy, dtable, has_positions ? dpositions.ref() : MatrixRef{}, seq_len, write};
  }

  int64_t seq_len;
  bool has_positions;
  std::vector<int32_t> tokens;
  RandomMatrix table, positions, y, dy, dtable, dpositions;
};

template <typename Body>
void for_every_case(Body&& body) {
  for (DType dtype : {DType::F32, DType::BF16, DType::F16}) {
    for (const EmbeddingShape& shape : kEmbeddingShapes) {
      for (bool has_positions : {false, true}) {
        SCOPED_TRACE(std::string(name_of(dtype)) + " d_model " + std::to_string(shape.d_model));
        for (DType grad : {DType::F32, DType::BF16}) {
          body(Operands(dtype, shape, has_positions, grad));
        }
      }
    }
  }
}

TEST(Embedding, AgreesWithTheReferenceEverywhere) {
  Teams teams;
  for_every_case([&](const Operands& start) {
    for (Write write : {Write::Overwrite, Write::Accumulate}) {
      const auto run = [&](const KernelTable& kernels, Stream& stream, Operands& o) {
        kernels.embedding_forward(stream, o.forward());
        kernels.embedding_backward(stream, o.backward(write));
      };
      const Operands got = same_bits_everywhere(teams, start, run);
      const Operands want = by_reference(teams, start, run);
      expect_near(got.y, want.y, 1e-7, "y");
      expect_near(got.dtable, want.dtable, 4e-6, "dtable");
      expect_near(got.dpositions, want.dpositions, 4e-6, "dpositions");
    }
  });
}

// Positions that are stated for every token; those of its place give the bits of none.
TEST(Embedding, StatedPositionsAgreeWithTheReferenceEverywhere) {
  Teams teams;
  for_every_case([&](const Operands& start) {
    if (!start.has_positions) return;
    for (const bool by_place : {false, true}) {
      std::vector<int32_t> positions;
      for (int64_t t = 0; t < int64_t(start.tokens.size()); ++t) {
        positions.push_back(int32_t((by_place ? t : t * t) % start.seq_len));
      }
      const TensorRef position_T{positions.data(), DType::I32, Shape{int64_t(positions.size())}};
      const auto run = [&](const KernelTable& kernels, Stream& stream, Operands& o) {
        EmbeddingForwardArgs forward = o.forward();
        EmbeddingBackwardArgs backward = o.backward(Write::Accumulate);
        forward.position_T = backward.position_T = position_T;
        kernels.embedding_forward(stream, forward);
        kernels.embedding_backward(stream, backward);
      };
      const Operands got = same_bits_everywhere(teams, start, run);
      const Operands want = by_reference(teams, start, run);
      expect_near(got.y, want.y, 1e-7, "y");
      expect_near(got.dtable, want.dtable, 4e-6, "dtable");
      expect_near(got.dpositions, want.dpositions, 4e-6, "dpositions");
      if (!by_place) continue;
      Operands without = start;
      const KernelTable& kernels = cpu_kernels(supported_isas().back());
      kernels.embedding_forward(teams.of_2, without.forward());
      kernels.embedding_backward(teams.of_2, without.backward(Write::Accumulate));
      EXPECT_TRUE(without == got);
    }
  });
}

// More tokens than are linked at a time, of a few that repeat often: a sum that were rounded for
// every token would stop long before its end.
TEST(Embedding, SumsOfManyEqualTokensInBf16AreRoundedOnce) {
  Teams teams;
  constexpr int64_t kTokens = kLinkedTokens + 100;
  Operands o(DType::F32, {kTokens, 3, 17, 8}, true, DType::BF16);
  for (int64_t t = 0; t < kTokens; ++t) {
    o.tokens[size_t(t)] = int32_t(t % 3);
    for (int64_t c = 0; c < 17; ++c) o.dy.set(t, c, 1.0f);
  }
  const Operands got =
      same_bits_everywhere(teams, o, [](const KernelTable& kernels, Stream& stream, Operands& at) {
        kernels.embedding_backward(stream, at.backward(Write::Overwrite));
      });
  for (int64_t c = 0; c < 17; ++c) {
    EXPECT_NEAR(got.dtable.get(0, c), kTokens / 3.0, kTokens / 3.0 / 128);
    EXPECT_NEAR(got.dpositions.get(0, c), kTokens / 8.0, kTokens / 8.0 / 256);
  }
}

// Sums take their tokens in order, so two calls give the same bits as one.
TEST(Embedding, TwoHalvesAccumulateLikeTheWhole) {
  Teams teams;
  for (Isa isa : supported_isas()) {
    const EmbeddingShape shape{96, 40, 515, 32};
    Operands whole(DType::F32, shape, true), halves = whole;
    const KernelTable& kernels = cpu_kernels(isa);
    kernels.embedding_backward(teams.of_4, whole.backward(Write::Overwrite));
    for (int64_t first : {0, 64}) {
      EmbeddingBackwardArgs args =
          halves.backward(first == 0 ? Write::Overwrite : Write::Accumulate);
      const int64_t count = first == 0 ? 64 : 32;
      args.tokens_T = {halves.tokens.data() + first, DType::I32, Shape{count}};
      args.dy_TC = rows_of(args.dy_TC, first, count);
      kernels.embedding_backward(teams.of_2, args);
    }
    EXPECT_TRUE(whole == halves);
  }
}

// <embed(table), dy> is linear in the tables, so the product of the gradient and the tables equals
// it.
TEST(Embedding, ReferenceBackwardIsTheAdjointOfForward) {
  Teams teams;
  Operands o(DType::F32, {9, 11, 7, 3}, true);
  embedding_forward_ref(teams.of_1, o.forward());
  embedding_backward_ref(teams.of_1, o.backward(Write::Overwrite));
  double through_tables = inner_product(o.table, o.dtable);
  for (int64_t s = 0; s < 3; ++s) {
    for (int64_t c = 0; c < 7; ++c)
      through_tables += o.positions.get(s, c) * o.dpositions.get(s, c);
  }
  EXPECT_NEAR(inner_product(o.y, o.dy), through_tables, 1e-5);
}

// Every part of the table adds the rows that it has; positions are added with the first part.
TEST(Embedding, PartsOfTheTableAddUpToTheWhole) {
  Teams teams;
  for_every_case([&](const Operands& start) {
    const int64_t num_tokens = start.table.rows(), split = num_tokens / 2;
    if (split == 0) return;
    for (Isa isa : supported_isas()) {
      const KernelTable& kernels = cpu_kernels(isa);
      Operands whole = start, low = start, high = start;
      kernels.embedding_forward(teams.of_2, whole.forward());
      kernels.embedding_backward(teams.of_2, whole.backward(Write::Accumulate));
      for (Operands* part : {&low, &high}) {
        const TokenRange range{part == &low ? 0 : split, num_tokens};
        const int64_t rows = part == &low ? split : num_tokens - split;
        EmbeddingForwardArgs forward = part->forward();
        forward.range = range;
        forward.table_VC = rows_of(forward.table_VC, range.first, rows);
        if (part == &high) forward.positions_SC = {};
        kernels.embedding_forward(teams.of_2, forward);
        EmbeddingBackwardArgs backward = part->backward(Write::Accumulate);
        backward.range = range;
        backward.dtable_VC = rows_of(backward.dtable_VC, range.first, rows);
        kernels.embedding_backward(teams.of_2, backward);
      }
      EXPECT_TRUE(low.dpositions == whole.dpositions);
      for (int64_t c = 0; c < whole.table.cols(); ++c) {
        for (int64_t t = 0; t < whole.y.rows(); ++t) {
          const float sum = low.y.get(t, c) + high.y.get(t, c);  // rounded as the sum over ranks is
          const DType dtype = whole.y.ref().dtype;
          ASSERT_EQ(dtype == DType::BF16  ? float(bf16(sum))
                    : dtype == DType::F16 ? float(f16(sum))
                                          : sum,
                    whole.y.get(t, c));
        }
        for (int64_t v = 0; v < num_tokens; ++v) {
          const Operands& owner = v < split ? low : high;
          ASSERT_EQ(owner.dtable.get(v, c), whole.dtable.get(v, c));
        }
      }
    }
  });
}

TEST(Embedding, ATokenOutsideTheVocabularyIsRefused) {
  Teams teams;
  for (int32_t token : {-1, 11}) {
    Operands o(DType::F32, {9, 11, 7, 3}, true);
    o.tokens[4] = token;
    for (Isa isa : supported_isas()) {
      EXPECT_THROW(cpu_kernels(isa).embedding_forward(teams.of_1, o.forward()), ContractError);
      EXPECT_THROW(cpu_kernels(isa).embedding_backward(teams.of_1, o.backward(Write::Overwrite)),
                   ContractError);
    }
  }
}

}  // namespace
}  // namespace trireme
