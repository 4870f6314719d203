#include "kernels/loss/cross_entropy.h"

#include "kernels/kernel_laws.h"
#include "kernels/loss/cross_entropy_cases.h"

namespace trireme {
namespace {

struct Operands {
  Operands(DType dtype, const LossShape& shape, float scale = 5.0f)
      : logits(DType::F32, shape.rows, shape.vocab_size, 3, 1, scale),
        targets(shape.rows),
        loss(DType::F32, 1, shape.rows, 0, 2),
        dlogits(dtype, shape.rows, shape.vocab_size, 1, 3) {
    for (int64_t t = 0; t < shape.rows; ++t) {
      targets[t] = t % 4 == 3 ? kIgnoredTarget : int32_t((t * 7919 + 5) % shape.vocab_size);
    }
  }
  bool operator==(const Operands&) const = default;

  CrossEntropyArgs args() {
    return {
        logits, {targets.data(), DType::I32, Shape{int64_t(targets.size())}}, loss.row(), dlogits};
  }

  RandomMatrix logits;
  std::vector<int32_t> targets;
  RandomMatrix loss, dlogits;
};

void run(const KernelTable& kernels, Stream& stream, Operands& o) {
  kernels.cross_entropy(stream, o.args());
}

TEST(CrossEntropy, AgreesWithTheReferenceEverywhere) {
  Teams teams;
  for (DType dtype : {DType::F32, DType::BF16}) {
    for (const LossShape& shape : kLossShapes) {
      for (float scale : {5.0f, 60.0f}) {  // soft, and with nearly one token's share
        SCOPED_TRACE(std::string(name_of(dtype)) + " " + std::to_string(shape.vocab_size));
        const Operands start(dtype, shape, scale);
        const Operands got = same_bits_everywhere(teams, start, run);
        const Operands want = by_reference(teams, start, run);
        expect_near(got.loss, want.loss, 2e-6, "loss");
        // bf16 rounds 1 - p of the target: an absolute unit near 1, not one of the difference.
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
    CrossEntropyArgs args = aliased.args();
    args.dlogits_TV = args.logits_TV;
    cpu_kernels(isa).cross_entropy(teams.of_2, args);
    expect_near(aliased.logits, apart.dlogits, 0.0, "dlogits");
    expect_near(aliased.loss, apart.loss, 0.0, "loss");
  }
}

// A bf16 row may begin where the fp32 row does: its writes never overtake the reads.
TEST(CrossEntropy, Bf16GradientsMayShareTheLogitsMemory) {
  Teams teams;
  for (Isa isa : supported_isas()) {
    Operands apart(DType::BF16, {5, 4099}), aliased = apart;
    run(cpu_kernels(isa), teams.of_2, apart);
    CrossEntropyArgs args = aliased.args();
    const MatrixRef& logits = args.logits_TV;
    args.dlogits_TV = {logits.data, DType::BF16, logits.rows, logits.cols, 2 * logits.stride};
    cpu_kernels(isa).cross_entropy(teams.of_2, args);
    for (int64_t t = 0; t < 5; ++t) {
      for (int64_t v = 0; v < 4099; ++v) {
        ASSERT_EQ(float(args.dlogits_TV.row<bf16>(t)[v]), apart.dlogits.get(t, v));
      }
    }
  }
}

TEST(CrossEntropy, LossIsTheSameWithoutGradients) {
  Teams teams;
  Operands with(DType::F32, {9, 4096}), without = with;
  const KernelTable& kernels = cpu_kernels(supported_isas().back());
  run(kernels, teams.of_1, with);
  CrossEntropyArgs args = without.args();
  args.dlogits_TV = {};
  kernels.cross_entropy(teams.of_1, args);
  EXPECT_TRUE(with.loss == without.loss);
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
    EXPECT_EQ(o.loss.get(0, t) == 0.0f, t % 4 == 3);
  }
}

TEST(CrossEntropy, EqualLogitsCostTheLogarithmOfTheVocabulary) {
  Teams teams;
  for (float logit : {0.0f, 1e4f, -1e4f}) {
    Operands o(DType::F32, {1, 50257});
    for (int64_t v = 0; v < 50257; ++v) o.logits.set(0, v, logit);
    run(cpu_kernels(supported_isas().back()), teams.of_1, o);
    EXPECT_NEAR(o.loss.get(0, 0), std::log(50257.0), 2e-6 * std::log(50257.0));
  }
}

TEST(CrossEntropy, WhatIsNotFiniteShows) {
  Teams teams;
  for (Isa isa : supported_isas()) {
    for (float bad : {float(NAN), float(INFINITY)}) {
      Operands o(DType::F32, {1, 4099});
      o.logits.set(0, 4098, bad);
      run(cpu_kernels(isa), teams.of_1, o);
      EXPECT_FALSE(std::isfinite(o.loss.get(0, 0)));
      EXPECT_FALSE(std::isfinite(o.dlogits.get(0, 4098)));
    }
    // A masked token, on the other hand, takes no share.
    Operands o(DType::F32, {1, 4099}), masked = o;
    for (int64_t v = 10; v < 4099; ++v) masked.logits.set(0, v, -INFINITY);
    run(cpu_kernels(isa), teams.of_1, masked);
    EXPECT_TRUE(std::isfinite(masked.loss.get(0, 0)));
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
    for (int64_t t = 0; t < 5; ++t) sum += at.loss.get(0, t);
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
