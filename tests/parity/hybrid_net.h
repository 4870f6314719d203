#pragma once

#include <vector>

#include "layout_run.h"

namespace trireme {

// Nets of images that are trained with parallel.tp.

struct HybridNet {
  ModelFamily family = ModelFamily::AlexNet;
  int64_t layers = 6;
  int64_t image_size = 63;
};
inline constexpr HybridNet kAlexNet = {};
inline constexpr HybridNet kVgg16 = {ModelFamily::Vgg16, 14, 32};
inline constexpr HybridNet kConvNet = {ModelFamily::ConvNet, 3, 16};
inline constexpr HybridNet kResNet = {ModelFamily::ResNet50, 4, 32};

struct HybridLayout {
  int dp = 1, tp = 1, pp = 1, zero = 0;
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  Recompute recompute = Recompute::None;
  std::vector<LayerRule> layers = {};
  int64_t images = 8;  // of a micro-batch
};

RunConfig hybrid_config_of(const HybridNet& net, const HybridLayout& layout);
RunPlan plan_of_hybrid(const HybridNet& net, const HybridLayout& layout);

// Trains so many steps; memory and traffic are as planned.
LayoutRun run_of(const RunPlan& plan, int steps);

// Losses and gradients of two steps are within the bounds of one rank's.
void expect_near_one_rank(const HybridNet& net, const std::vector<HybridLayout>& layouts);

// Bytes that all ranks send in a step over all axes but the one that joins losses and norms.
int64_t planned_bytes(const RunPlan& plan);

}  // namespace trireme
