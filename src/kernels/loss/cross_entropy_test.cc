#include "kernels/loss/cross_entropy.h"

#include "kernels/kernel_laws.h"
#include "kernels/loss/cross_entropy_cases.h"

namespace trireme {
namespace {

struct Operands {
  Operands(DType dtype, const LossShape& shape, float scale = 5.0f, int num_parts = 1)
      : num_parts(num_parts),
        logits(DType::F32, shape.rows, shape.vocab_size, 3, 1, scale),
        targets(shape.rows),
        parts(DType::F32, 3 * num_parts, shape.rows, 2, 4),
        statistics(DType::F32, 3, shape.rows, 0, 2),
        dlogits(dtype, shape.rows, shape.vocab_size, 1, 3) {
    for (int64_t t = 0; t < shape.rows; ++t) {
      targets[t] = t % 4 == 3 ? kIgnoredTarget : int32_t((t * 7919 + 5) % shape.vocab_size);
    }
  }
  bool operator==(const Operands&) const = default;

  TensorRef targets_T() { return {targets.data(), DType::I32, Shape{int64_t(targets.size())}}; }
  TensorRef statistic(int64_t i) {
    const MatrixRef row = rows_of(statistics, i, 1);
    return {row.data, DType::F32, Shape{row.cols}};
  }
  int64_t begin(int part) const { return logits.cols() * part / num_parts; }
  // Returns the columns of one part of the vocabulary.
  MatrixRef part_of(const MatrixRef& x_TV, int part) const {
    return cols_of(x_TV, begin(part), begin(part + 1) - begin(part));
  }
  float loss(int64_t t) const { return statistics.get(0, t); }

  int num_parts;  // number of ranks that share the vocabulary
  RandomMatrix logits;
  std::vector<int32_t> targets;
  RandomMatrix parts, statistics, dlogits;
};

void run_onto(const KernelTable& kernels, Stream& stream, Operands& o, MatrixRef dlogits_TV) {
  for (int part = 0; part < o.num_parts; ++part) {
    kernels.softmax_part(stream, {o.part_of(o.logits, part), o.targets_T(), o.begin(part),
                                  o.logits.cols(), rows_of(o.parts, 3 * part, 3)});
  }
  kernels.cross_entropy(stream,
                        {o.parts, o.targets_T(), o.statistic(0), o.statistic(1), o.statistic(2)});
  for (int part = 0; part < o.num_parts; ++part) {
    kernels.cross_entropy_gradient(
        stream, {o.part_of(o.logits, part), o.targets_T(), o.begin(part), o.statistic(1),
                 o.statistic(2), o.part_of(dlogits_TV, part)});
  }
}

void run(const KernelTable& kernels, Stream& stream, Operands& o) {
  run_onto(kernels, stream, o, o.dlogits);
}

TEST(CrossEntropy, AgreesWithTheReferenceEverywhere) {
  Teams teams;
  for (DType dtype : {DType::F32, DType::BF16, DType::F16}) {
    for (const LossShape& shape : kLossShapes) {
      // Soft distributions, and some in which one token has nearly everything.
      for (float scale : {5.0f, 60.0f}) {
        SCOPED_TRACE(std::string(name_of(dtype)) + " " + std::to_string(shape.vocab_size));
        const Operands start(dtype, shape, scale);
        const Operands got = same_bits_everywhere(teams, start, run);
        const Operands want = by_reference(teams, start, run);
        expect_near(got.statistics, want.statistics, 2e-6, "loss, max and sum");
        // bf16 rounds 1 - p of the target to a unit near 1, not to one of the difference.
        expect_near(got.dlogits, want.dlogits, 2e-6, "dlogits");
      }
    }
  }
}

TEST(CrossEntropy, GradientsMayOverwriteTheLogits) {
  Teams teams;
  for (Isa isa : supported_isas()) {
    Operands apart(DType::F32, {5, 4099}), aliased = apart;
    run(cpu_kernels(isa), teams.of_2, apart);
    run_onto(cpu_kernels(isa), teams.of_2, aliased, aliased.logits);
    expect_near(aliased.logits, apart.dlogits, 0.0, "dlogits");
    expect_near(aliased.statistics, apart.statistics, 0.0, "loss");
  }
}

// A bf16 row may begin where its fp32 row does, because its writes never overtake the reads.
TEST(CrossEntropy, Bf16GradientsMayShareTheLogitsMemory) {
  Teams teams;
  for (Isa isa : supported_isas()) {
    Operands apart(DType::BF16, {5, 4099}), aliased = apart;
    run(cpu_kernels(isa), teams.of_2, apart);
    const MatrixRef logits = aliased.logits;
    const MatrixRef dlogits{logits.data, DType::BF16, logits.rows, logits.cols, 2 * logits.stride};
    run_onto(cpu_kernels(isa), teams.of_2, aliased, dlogits);
    for (int64_t t = 0; t < 5; ++t) {
      for (int64_t v = 0; v < 4099; ++v) {
        ASSERT_EQ(float(dlogits.row<bf16>(t)[v]), apart.dlogits.get(t, v));
      }
    }
  }
}

TEST(CrossEntropy, PartsOfTheVocabularyJoinToTheWhole) {
  Teams teams;
  for (Isa isa : supported_isas()) {
    for (const LossShape& shape : kLossShapes) {
      for (float scale : {5.0f, 60.0f}) {
        Operands whole(DType::F32, shape, scale);
        run(cpu_kernels(isa), teams.of_1, whole);
        for (int num_parts : {2, 3, 4}) {
          if (num_parts > shape.vocab_size) continue;
          SCOPED_TRACE(std::to_string(shape.vocab_size) + " in " + std::to_string(num_parts));
          Operands parts(DType::F32, shape, scale, num_parts);
          run(cpu_kernels(isa), teams.of_1, parts);
          expect_near(parts.statistics, whole.statistics, 2e-6, "loss, max and sum");
          expect_near(parts.dlogits, whole.dlogits, 2e-6, "dlogits");
        }
      }
    }
  }
}

// A row is a hit if its target has the largest logit, also with a tie. An ignored row is a miss.
TEST(CrossEntropy, ARowIsAHitIfNoTokenHasALargerLogitThanItsTarget) {
  Teams teams;
  std::vector<const KernelTable*> tables = {&reference_kernels()};
  for (Isa isa : supported_isas()) tables.push_back(&cpu_kernels(isa));
  for (const KernelTable* kernels : tables) {
    for (int num_parts : {1, 3}) {
      Operands o(DType::F32, {12, 771}, 5.0f, num_parts);
      for (int64_t t = 0; t < 12; ++t) {
        const float* row = MatrixRef(o.logits).row<float>(t);
        const auto best = int32_t(std::max_element(row, row + 771) - row);
        if (t == 2) MatrixRef(o.logits).row<float>(t)[(best + 300) % 771] = row[best];
        o.targets[size_t(t)] = t % 4 == 3 ? kIgnoredTarget : (best + (t % 2 == 0 ? 0 : 1)) % 771;
      }
      run(*kernels, teams.of_2, o);
      std::vector<float> hits(12);
      for (float* out : {hits.data(), MatrixRef(o.statistics).row<float>(2)}) {
        const TensorRef hit_T{out, DType::F32, Shape{12}};
        kernels->cross_entropy(teams.of_2, {o.parts, o.targets_T(), o.statistic(0), o.statistic(1),
                                            o.statistic(2), hit_T});
        for (int64_t t = 0; t < 12; ++t) EXPECT_EQ(out[t], t % 2 == 0 ? 1.0f : 0.0f) << t;
      }
    }
  }
}

TEST(CrossEntropy, GradientsOfARowSumToZeroAndIgnoredRowsAreZero) {
  Teams teams;
  Operands o(DType::F32, {9, 4096});
  run(cpu_kernels(supported_isas().back()), teams.of_2, o);
  for (int64_t t = 0; t < 9; ++t) {
    double sum = 0.0, magnitude = 0.0;
    for (int64_t v = 0; v < 4096; ++v) {
      sum += o.dlogits.get(t, v);
      magnitude += std::abs(o.dlogits.get(t, v));
    }
    EXPECT_NEAR(sum, 0.0, 1e-5);
    EXPECT_EQ(magnitude == 0.0, t % 4 == 3);
    EXPECT_EQ(o.loss(t) == 0.0f, t % 4 == 3);
  }
}

TEST(CrossEntropy, EqualLogitsCostTheLogarithmOfTheVocabulary) {
  Teams teams;
  for (float logit : {0.0f, 1e4f, -1e4f}) {
    Operands o(DType::F32, {1, 50257});
    for (int64_t v = 0; v < 50257; ++v) o.logits.set(0, v, logit);
    run(cpu_kernels(supported_isas().back()), teams.of_1, o);
    EXPECT_NEAR(o.loss(0), std::log(50257.0), 2e-6 * std::log(50257.0));
  }
}

TEST(CrossEntropy, WhatIsNotFiniteShows) {
  Teams teams;
  for (Isa isa : supported_isas()) {
    for (float bad : {float(NAN), float(INFINITY)}) {
      Operands o(DType::F32, {1, 4099});
      o.logits.set(0, 4098, bad);
      run(cpu_kernels(isa), teams.of_1, o);
      EXPECT_FALSE(std::isfinite(o.loss(0)));
      EXPECT_FALSE(std::isfinite(o.dlogits.get(0, 4098)));
    }
    // A masked token has no share of the softmax.
    Operands o(DType::F32, {1, 4099}), masked = o;
    for (int64_t v = 10; v < 4099; ++v) masked.logits.set(0, v, -INFINITY);
    run(cpu_kernels(isa), teams.of_1, masked);
    EXPECT_TRUE(std::isfinite(masked.loss(0)));
    EXPECT_EQ(masked.dlogits.get(0, 4000), 0.0f);
  }
}

TEST(CrossEntropy, ReferenceGradientIsTheDerivativeOfTheLoss) {
  Teams teams;
  Operands o(DType::F32, {5, 65});
  run(reference_kernels(), teams.of_1, o);
  const RandomMatrix direction(DType::F32, 5, 65, 0, 99);
  const double slope = derivative([&](double step) {
    Operands at = o;
    at.logits = moved(o.logits, direction, step);
    run(reference_kernels(), teams.of_1, at);
    double sum = 0.0;
    for (int64_t t = 0; t < 5; ++t) sum += at.loss(t);
    return sum;
  });
  EXPECT_NEAR(inner_product(direction, o.dlogits), slope, 2e-4);
}

TEST(CrossEntropy, ATargetOutsideTheVocabularyIsRefused) {
  Teams teams;
  Operands o(DType::F32, {4, 7});
  o.targets[2] = 7;
  EXPECT_THROW(run(cpu_kernels(supported_isas().back()), teams.of_1, o), ContractError);
}

}  // namespace
}  // namespace trireme
