#include "autoparallel/uniform_plans.h"

#include <algorithm>

#include "program/split_layers.h"

namespace trireme {
namespace {

// The uniform layouts with one number of stages.
class UniformStages {
 public:
  UniformStages(const PlannedRun& run, ClusterStages& search, int64_t sequences, int num_stages)
      : search_(search),
        sequences_(sequences),
        num_stages_(num_stages),
        last_unit_(run.num_units() - 1) {
    const int ranks = run.num_ranks / num_stages;
    for (int s = 0; s < num_stages; ++s) mixes_.push_back(search.mix_of(s * ranks, ranks));
  }

  // Returns the plan of a layout, or nullopt if it does not fit.
  std::optional<FoundPlan> plan_of(const StageSearch::Uniform& uniform, LayerSplit split) {
    const std::optional<std::vector<int>> counts = layers_of(uniform, split);
    if (!counts) return std::nullopt;
    FoundPlan plan{.sequences = sequences_, .num_microbatches = search_.num_microbatches()};
    int first = 0;
    for (int s = 0; s < num_stages_; ++s) {
      const bool is_last = s + 1 == num_stages_;
      const int end = is_last ? last_unit_ : first + (*counts)[size_t(s)] + (s == 0 ? 1 : 0) - 1;
      const int in_flight = int(std::min<int64_t>(num_stages_ - s, search_.num_microbatches()));
      auto stage = search_.uniform_stage(mixes_[size_t(s)], uniform, first, end, in_flight);
      if (!stage) return std::nullopt;
      plan.stages.push_back(std::move(*stage));
      first = end + 1;
    }
    plan.uniform = uniform;
    plan.has_layers_by_speed = split == LayerSplit::BySpeed;
    double slowest = 0.0;
    for (const StagePlan& stage : plan.stages) {
      plan.formula_s += stage.seconds;
      slowest = std::max(slowest, stage.seconds);
    }
    plan.formula_s += double(plan.num_microbatches - 1) * slowest;
    return plan;
  }

 private:
  // Returns the number of layers of each stage; nullopt if some op cannot have its role, or if the
  // devices are all as fast and layers by speed are the even ones.
  std::optional<std::vector<int>> layers_of(const StageSearch::Uniform& uniform, LayerSplit split) {
    const int mix = mixes_.front();
    const double embedding_s = search_.uniform_seconds(mix, uniform, 0);
    const double head_s = search_.uniform_seconds(mix, uniform, last_unit_);
    if (embedding_s == kImpossible || head_s == kImpossible) return std::nullopt;
    std::vector<double> layers;
    for (int layer = 1; layer < last_unit_; ++layer) {
      layers.push_back(search_.uniform_seconds(mix, uniform, layer));
      if (layers.back() == kImpossible) return std::nullopt;
    }
    std::vector<double> factors;  // by how much a layer takes longer than on the first stage
    for (size_t s = 0; split == LayerSplit::BySpeed && s < mixes_.size(); ++s) {
      factors.push_back(search_.uniform_seconds(mixes_[s], uniform, 1) / layers.front());
      if (factors.back() == kImpossible) return std::nullopt;
    }
    const bool are_alike =
        std::all_of(factors.begin(), factors.end(), [](double factor) { return factor == 1.0; });
    if (split == LayerSplit::BySpeed && are_alike) return std::nullopt;
    Result<std::vector<int>> counts =
        split_layers(layers, num_stages_, {.first = embedding_s, .last = head_s}, factors);
    if (!counts.ok()) return std::nullopt;
    return std::move(*counts);
  }

  ClusterStages& search_;
  int64_t sequences_;
  int num_stages_;
  int last_unit_;
  std::vector<int> mixes_;  // [stage]
};

}  // namespace

void add_uniform_plans(const PlannedRun& run, ClusterStages& search, int64_t sequences,
                       LayerSplit split, std::vector<FoundPlan>& found) {
  for (int stages = 1; stages <= std::min<int64_t>(run.num_ranks, run.model.layers); ++stages) {
    if (run.num_ranks % stages != 0) continue;
    UniformStages priced(run, search, sequences, stages);
    std::optional<FoundPlan> best;
    for (const StageSearch::Uniform& uniform : search.uniforms(run.num_ranks / stages)) {
      auto plan = priced.plan_of(uniform, split);
      if (plan && (!best || plan->formula_s < best->formula_s)) best = std::move(plan);
    }
    if (!best) continue;
    simulate_plan(run, *best);
    found.push_back(std::move(*best));
  }
}

}  // namespace trireme
