#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "compile/again_price.h"
#include "memory/stage_sizes.h"
#include "planner/needed_bytes.h"

namespace trireme {

// Chooses what memory.recompute = "fit" computes again: of all sets of values the cheapest that
// fits. All layers of all stages take the same set. The schedule and the split into stages are
// those of a plan that computes nothing again, so the bytes of every set follow from this plan and
// from the tables of one layer, to the byte.
class RecomputeChoice {
 public:
  // Plans that are asked about later have the model, the dtype and the batch keys of `plan`.
  RecomputeChoice(const RunPlan& plan, const Hardware& hardware);

  // The cheapest set for which `fits` is true, or nullopt. `plan` must be compiled with an empty
  // set.
  std::optional<uint64_t> cheapest(const RunPlan& plan,
                                   const std::function<bool(const NeededBytes&)>& fits);
  // What `plan`, compiled with an empty set, needs with another one.
  NeededBytes needed(const RunPlan& plan, uint64_t again);
  // The sets that save less than all cheaper ones, cheapest first, for layers on a rank of this
  // shape: by the bytes of the kind of layer that saves the least.
  struct SavedSet {
    uint64_t again = 0;
    int64_t saved_by_layer = 0;
  };
  std::vector<SavedSet> cheapest_by_saved_bytes(const RunPlan& plan, const StageShape& shape);
  // Every value that there is a choice for.
  uint64_t all_again() const { return all_again_; }

 private:
  class Sizes;
  // The layers of one chunk that a class of ranks saves: those of every slot.
  struct SavedLayers {
    Sizes* sizes = nullptr;
    std::vector<std::pair<int, int64_t>> layers;  // kind and number
  };
  struct ClassNeeds {
    int64_t arena_bytes = 0;  // with the empty set
    int64_t lacks_bytes = 0;  // RankClass::lacks_bytes
    int64_t num_ranks = 0;
    bool has_pairs = false;  // every chunk has scratch of its own
    std::vector<SavedLayers> chunks;
  };
  std::vector<ClassNeeds> needs_of(const RunPlan& plan);
  static NeededBytes needed(const std::vector<ClassNeeds>& classes, uint64_t again);
  Sizes* sizes_of(const RunPlan& plan, const StageSpec& stage, const StageShape& shape);

  std::vector<uint64_t> sets_;  // cheapest first
  uint64_t all_again_ = 0;
  // micro-batch, tp, tp rank, cp, ep, with embedding, with head, kinds of layers, B and W apart,
  // sequence, tp_overlap, context
  using Key = std::tuple<int64_t, int, int, int, int, bool, bool, std::vector<int>, bool, bool,
                         bool, ContextExchange>;
  std::map<Key, std::shared_ptr<Sizes>> sizes_;
};

// Gives the plan, compiled with an empty set, the cheapest set with which it keeps within the
// limit, and compiles it again. If no set does, it takes the set of all values.
Status recompute_to_fit(RunPlan& plan, int64_t limit);

}  // namespace trireme
