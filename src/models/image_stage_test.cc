// A stage of a convolutional net over one micro-batch.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "models/finite_differences.h"
#include "models/stage_fixture.h"

namespace trireme {
namespace {

constexpr const char* kNets[] = {"conv_net", "resnet"};

// Steps are small, so that few ReLUs and maxima change sides.
TEST(ImageStage, GradientsAreSlopesOfTheLoss) {
  for (const char* name : kNets) {
    SCOPED_TRACE(name);
    const ModelSpec model = model_of(name);
    TestStage stage(model, *all_kernels().back(), DType::F32);
    expect_gradients_are_slopes(stage, model, 1e-3);
  }
}

TEST(ImageStage, RecomputationSplittingAndThreadsChangeNoBit) {
  for (const DType compute : {DType::F32, DType::BF16}) {
    for (const char* name : kNets) {
      const ModelSpec model = model_of(name);
      TestStage base(model, *all_kernels().back(), compute);
      base.forward();
      base.backward();
      for (const Recompute recompute : kRecomputes) {
        for (const bool split : {false, true}) {
          SCOPED_TRACE(
              fmt::format("{} {} {} {}", name, name_of(compute), name_of(recompute), split));
          TestStage stage(model, *all_kernels().back(), compute, {recompute, split, split ? 2 : 3});
          stage.forward();
          stage.backward();
          EXPECT_EQ(stage.losses(), base.losses());
          EXPECT_EQ(stage.all_grads(), base.all_grads());
        }
      }
    }
  }
}

// Weights' gradients are summed leaf by leaf. Nothing else depends on the leaves.
TEST(ImageStage, LeavesChangeTheOrderOfSumsAlone) {
  for (const char* name : kNets) {
    SCOPED_TRACE(name);
    const ModelSpec model = model_of(name);
    const auto grads_of = [&](int64_t leaves, bool split) {
      TestStage stage(model, *all_kernels().back(), DType::F32,
                      {.split_backward = split, .leaves = leaves});
      stage.forward();
      stage.backward();
      return std::pair(stage.losses(), stage.all_grads());
    };
    const auto [losses, whole] = grads_of(1, false);
    const auto [losses_by_leaf, by_leaf] = grads_of(kSequences, false);
    EXPECT_EQ(losses_by_leaf, losses);
    for (const auto& [param, grad] : whole) {
      double largest = 0.0;
      for (const float value : grad) largest = std::max(largest, std::abs(double(value)));
      for (size_t i = 0; i < grad.size(); ++i) {
        ASSERT_NEAR(by_leaf.at(param)[i], grad[i], 2e-5 * largest + 1e-7) << param;
      }
      EXPECT_TRUE(!param.ends_with(".mean") || by_leaf.at(param) == grad) << param;
    }
    EXPECT_NE(by_leaf, whole);
    EXPECT_EQ(grads_of(kSequences, true).second, by_leaf);
  }
}

// Without training, a batch norm reads its parameters and not the micro-batch.
TEST(ImageStage, AnEvaluationDependsOnTheRunningStatistics) {
  const ModelSpec model = model_of("conv_net");
  TestStage stage(model, *all_kernels().back(), DType::F32);
  const double trained = stage.forward(), evaluated = stage.forward(false);
  EXPECT_NE(trained, evaluated);
  const TensorRef mean = stage.params().at("stem.norm.mean");
  for (int64_t c = 0; c < mean.num_elements(); ++c) mean.as<float>()[c] += 1.0f;
  EXPECT_EQ(stage.forward(), trained);
  EXPECT_NE(stage.forward(false), evaluated);
}

}  // namespace
}  // namespace trireme
