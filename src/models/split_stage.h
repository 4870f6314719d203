#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <utility>

#include "comm/mesh_groups.h"
#include "comm/world.h"
#include "models/grad_addends.h"
#include "models/stage_fixture.h"

// A stage whose layers, sequences and experts several ranks share, for the tests of models/.
namespace trireme {

using Values = std::map<std::string, std::vector<float>>;

// Where a token went, and the scores among which it had the choice.
struct RouteOf {
  std::vector<int32_t> experts;
  std::vector<float> scores;
};

// What the ranks of a run left.
struct Outcome {
  std::vector<float> losses;                 // the same on every rank
  Values params, grads;                      // of the whole model
  std::vector<std::vector<RouteOf>> routes;  // [layer][token]; none without experts
};

// Elements of a rank's box in the whole parameter.
template <typename Visit>
void for_each_element(const ParamLayout& layout, Visit visit) {
  const bool is_matrix = layout.global.rank() == 2;
  const int64_t cols = is_matrix ? layout.global[1] : 1;
  const int64_t box_cols = is_matrix ? layout.extent[1] : 1;
  const int64_t first_col = is_matrix ? layout.begin[1] : 0;
  for (int64_t i = 0; i < layout.extent.num_elements(); ++i) {
    const int64_t row = layout.begin[0] + i / box_cols, col = first_col + i % box_cols;
    visit(size_t(row * cols + col), size_t(i));
  }
}

// Puts the parts of a tensor together. Ranks that hold the same element agree on every bit.
class Assembly {
 public:
  void add(const ParamLayout& layout, const std::vector<float>& part) {
    std::vector<float>& whole = values_[layout.name];
    std::vector<bool>& seen = seen_[layout.name];
    whole.resize(size_t(layout.global.num_elements()));
    seen.resize(whole.size());
    for_each_element(layout, [&](size_t global, size_t local) {
      ASSERT_TRUE(!seen[global] || std::memcmp(&whole[global], &part[local], sizeof(float)) == 0)
          << layout.name << ": ranks that hold the same element differ";
      whole[global] = part[local];
      seen[global] = true;
    });
  }
  Values take() {
    for (const auto& [name, seen] : seen_) {
      for (const bool element : seen) EXPECT_TRUE(element) << name << " has a gap";
    }
    return std::move(values_);
  }

 private:
  Values values_;
  std::map<std::string, std::vector<bool>> seen_;
};

inline std::vector<float> values_of(const TensorRef& x) {
  return {x.as<float>(), x.as<float>() + x.num_elements()};
}

inline void add_routes(const TestStage& stage, int layer, std::vector<RouteOf>& routes) {
  const Route route = stage.route(layer);
  for (int64_t i = 0; i < stage.num_tokens(); ++i) {
    RouteOf& token = routes[size_t(stage.whole_token(i))];
    const int32_t* experts = route.expert_Tk.row<int32_t>(i);
    const float* scores = route.score_TE.row<float>(i);
    const std::vector<int32_t> chosen(experts, experts + route.expert_Tk.cols);
    EXPECT_TRUE(token.experts.empty() || token.experts == chosen) << "tp ranks route alike";
    token = {chosen, {scores, scores + route.score_TE.cols}};
  }
}

inline std::vector<GradAddends::Part> addends_of(const std::vector<ParamLayout>& layouts,
                                                 const Frame& grads) {
  std::vector<GradAddends::Part> parts;
  for (const ParamLayout& layout : layouts) {
    const TensorRef grad = grads.find(layout.name);
    if (!grad) continue;  // never trained
    parts.push_back({layout.grad_addends, {grad.data, grad.dtype, Shape{grad.num_elements()}}});
  }
  return parts;
}

// One micro-batch over the ranks of tp, cp and, inside cp, ep.
inline Outcome run_stage(const ModelSpec& model, const KernelTable& kernels, int tp, const Way& way,
                         int cp = 1, int ep = 1) {
  Outcome outcome;
  outcome.routes.resize(model.has_experts() ? size_t(model.num_blocks()) : 0);
  std::vector<Assembly> params(static_cast<size_t>(cp)), grads(static_cast<size_t>(cp));
  std::map<int64_t, float> losses;
  std::mutex mutex;
  run_ranks(tp * cp, [&](World& world) {
    MeshGroups groups(world, Mesh{.tp = tp, .cp = cp, .ep = ep});
    TestStage stage(model, kernels, DType::F32, way, &groups.tp(), &groups.cp(), &groups.ep());
    GradAddends addends(groups.tp(), addends_of(stage.layouts(), stage.grads()));
    stage.forward();
    stage.backward();
    addends.sum();
    const std::lock_guard lock(mutex);
    for (int64_t i = 0; i < stage.num_tokens(); ++i) {
      const auto [loss, is_new] = losses.emplace(stage.whole_token(i), stage.losses()[size_t(i)]);
      EXPECT_TRUE(is_new || loss->second == stage.losses()[size_t(i)]);
    }
    for (size_t layer = 0; layer < outcome.routes.size(); ++layer) {
      if (!model.has_experts(int64_t(layer))) continue;
      outcome.routes[layer].resize(size_t(kSequences * kSeqLen));
      add_routes(stage, int(layer), outcome.routes[layer]);
    }
    const size_t cp_rank = size_t(groups.coords().cp);
    for (const ParamLayout& layout : stage.layouts()) {
      params[cp_rank].add(layout, values_of(stage.params().at(layout.name)));
      if (!stage.grads().contains(layout.name)) continue;  // never trained
      grads[cp_rank].add(layout, stage.grad(layout.name));
    }
  });
  for (const auto& [token, loss] : losses) outcome.losses.push_back(loss);
  for (size_t r = 0; r < size_t(cp); ++r) {
    outcome.params.merge(params[r].take());
    for (const auto& [name, grad] : grads[r].take()) {
      std::vector<float>& sum = outcome.grads[name];
      sum.resize(grad.size());
      for (size_t i = 0; i < grad.size(); ++i) sum[i] += grad[i];
    }
  }
  return outcome;
}

inline double norm_of(const std::vector<float>& x) {
  double sum = 0.0;
  for (const float value : x) sum += double(value) * value;
  return std::sqrt(sum);
}

inline void expect_same_training(const Outcome& got, const Outcome& want) {
  double got_loss = 0.0, want_loss = 0.0, squares = 0.0;
  for (const float loss : got.losses) got_loss += loss;
  for (const float loss : want.losses) want_loss += loss;
  EXPECT_NEAR(got_loss, want_loss, 1e-6 * want_loss);
  for (const auto& [name, grad] : want.grads) squares += std::pow(norm_of(grad), 2.0);
  for (const auto& [name, grad] : want.grads) {
    std::vector<float> difference = got.grads.at(name);
    ASSERT_EQ(difference.size(), grad.size()) << name;
    for (size_t i = 0; i < grad.size(); ++i) difference[i] -= grad[i];
    EXPECT_LE(norm_of(difference), 2e-5 * std::max(norm_of(grad), 1e-3 * std::sqrt(squares)))
        << name;
  }
}

inline const KernelTable& fastest_kernels() {
  return supported_isas().empty() ? reference_kernels() : cpu_kernels(supported_isas().back());
}

}  // namespace trireme
