#include "planner/recompute_to_fit.h"

#include <algorithm>
#include <utility>

#include "compile/compile_plan.h"
#include "compile/compile_rank.h"
#include "compile/stage_cost.h"

namespace trireme {

// Remembers the sizes of one stage for the sets that were asked for.
class RecomputeChoice::Sizes {
 public:
  explicit Sizes(SizesOfStage stage) : stage_(std::move(stage)) {}
  const StageSizes& with(uint64_t again) {
    const auto [found, is_new] = known_.try_emplace(again);
    if (is_new) found->second = stage_.with(again);
    return found->second;
  }

 private:
  SizesOfStage stage_;
  std::map<uint64_t, StageSizes> known_;
};

RecomputeChoice::RecomputeChoice(const RunPlan& plan, const Hardware& hardware) {
  const AgainPrice price(plan, hardware);
  all_again_ = price.all_again();
  std::vector<std::pair<double, uint64_t>> priced;
  for (uint64_t again = 0; again <= all_again_; ++again) {
    priced.emplace_back(price.seconds_per_token(again), again);
  }
  // Sets that run the same ops have the same price. The one with more members is tried first,
  // because it stores less.
  std::sort(priced.begin(), priced.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second > b.second;
  });
  for (const auto& [seconds, again] : priced) sets_.push_back(again);
}

namespace {

std::vector<int> kinds_of(const ModelSpec& model, const StageSpec& stage) {
  std::vector<int> kinds;
  for (const LayerRun& run : layer_runs(model, stage)) kinds.push_back(run.kind);
  return kinds;
}

}  // namespace

RecomputeChoice::Sizes* RecomputeChoice::sizes_of(const RunPlan& plan, const StageSpec& stage,
                                                  const StageShape& shape) {
  const Key key{shape.micro_sequences,
                shape.tp,
                shape.tp_rank,
                shape.cp,
                shape.ep,
                stage.has_embedding,
                stage.has_head,
                kinds_of(plan.model, stage),
                shape.split_backward,
                shape.sequence_parallel,
                shape.tp_overlap,
                shape.context_exchange};
  std::shared_ptr<Sizes>& sizes = sizes_[key];
  if (sizes == nullptr) {
    sizes = std::make_shared<Sizes>(SizesOfStage(plan.model, stage, shape));
  }
  return sizes.get();
}

std::vector<RecomputeChoice::ClassNeeds> RecomputeChoice::needs_of(const RunPlan& plan) {
  std::vector<ClassNeeds> classes;
  for (const RankClass& alike : plan.classes) {
    const RankPlan& of_stage = plan.pipeline[size_t(coords_of(plan.mesh, alike.first).pp)];
    RankPlan rank;
    move_to(rank, alike.first, plan);
    ClassNeeds& needs = classes.emplace_back(ClassNeeds{alike.memory.arena_bytes,
                                                        alike.lacks_bytes,
                                                        alike.num_ranks,
                                                        has_pairs(of_stage.program),
                                                        {}});
    for (size_t c = 0; c < of_stage.chunks.size(); ++c) {
      const StageSpec& stage = of_stage.chunks[c].stage;
      const auto slots = int64_t(of_stage.memory.chunks[c].saved_slots.size());
      SavedLayers& saved =
          needs.chunks.emplace_back(SavedLayers{sizes_of(plan, stage, rank.shape), {}});
      for (const LayerRun& run : layer_runs(plan.model, stage)) {
        saved.layers.emplace_back(run.kind, slots * run.count);
      }
    }
  }
  return classes;
}

NeededBytes RecomputeChoice::needed(const std::vector<ClassNeeds>& classes, uint64_t again) {
  NeededBytes needed;
  for (const ClassNeeds& alike : classes) {
    int64_t bytes = alike.arena_bytes, scratch_before = 0, scratch = 0;
    for (const SavedLayers& chunk : alike.chunks) {
      const StageSizes &before = chunk.sizes->with(0), &after = chunk.sizes->with(again);
      for (const auto& [kind, count] : chunk.layers) {
        bytes += count * (after.saved_by_layer[size_t(kind)] - before.saved_by_layer[size_t(kind)]);
      }
      const auto add = [&](int64_t& bytes_of_all, int64_t of_chunk) {
        bytes_of_all = alike.has_pairs ? bytes_of_all + of_chunk : std::max(bytes_of_all, of_chunk);
      };
      add(scratch_before, before.scratch);
      add(scratch, after.scratch);
    }
    bytes += scratch - scratch_before;
    needed.of_rank = std::max(needed.of_rank, bytes + alike.lacks_bytes);
    needed.of_all += alike.num_ranks * bytes;
  }
  return needed;
}

NeededBytes RecomputeChoice::needed(const RunPlan& plan, uint64_t again) {
  return needed(needs_of(plan), again);
}

std::optional<uint64_t> RecomputeChoice::cheapest(
    const RunPlan& plan, const std::function<bool(const NeededBytes&)>& fits) {
  const std::vector<ClassNeeds> classes = needs_of(plan);
  for (const uint64_t again : sets_) {
    if (fits(needed(classes, again))) return again;
  }
  return std::nullopt;
}

std::vector<RecomputeChoice::SavedSet> RecomputeChoice::cheapest_by_saved_bytes(
    const RunPlan& plan, const StageShape& shape) {
  Sizes& layers = *sizes_of(plan, {0, plan.model.layers, false, false}, shape);
  std::vector<SavedSet> sets;
  for (const uint64_t again : sets_) {
    const std::vector<int64_t>& by_kind = layers.with(again).saved_by_layer;
    const int64_t saved = *std::min_element(by_kind.begin(), by_kind.end());
    if (sets.empty() || saved < sets.back().saved_by_layer) sets.push_back({again, saved});
  }
  return sets;
}

Status recompute_to_fit(RunPlan& plan, int64_t limit) {
  RecomputeChoice choice(plan, plan.hardware.value_or(nominal_hardware()));
  const bool limits_ranks = plan.config.memory.limit_bytes > 0;
  const auto fits = [&](const NeededBytes& needed) {
    return (limits_ranks ? needed.of_rank : needed.of_all) <= limit;
  };
  plan.shape.again = choice.cheapest(plan, fits).value_or(choice.all_again());
  return compile_plan(plan);
}

}  // namespace trireme
