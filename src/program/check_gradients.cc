#include <deque>
#include <map>
#include <set>

#include "program/check_data_parallel.h"
#include "program/program_check.h"

namespace trireme {
namespace {

class GradientCheck : public ProgramCheck {
 public:
  GradientCheck(const Program& program, const DataParallelShape& shape,
                const std::vector<MicrobatchRange>& microbatches, int dp)
      : ProgramCheck(program, shape), microbatches_(microbatches), dp_(dp) {
    for (const int units : shape.num_units) units_.emplace_back(size_t(units));
  }

  std::vector<Problem> run() && {
    for (position_ = 0; position_ < int(program_.size()); ++position_) {
      follow(program_[size_t(position_)]);
    }
    position_ = -1;
    if (num_steps_ != 1) report("step", fmt::format("has Step {} times", num_steps_));
    const int wanted = shape_.post_validates ? 1 : 0;
    if (num_validations_ != wanted) {
      report("step", fmt::format("has Validate {} times instead of {}", num_validations_, wanted));
    }
    return std::move(problems_);
  }

 private:
  struct Unit {
    bool is_reduced = false;  // for levels 0 and 1
    int leaf = -1;            // for levels 2 and 3: the micro-batch in the unit's buffer
    std::set<int> reduced_leaves;
  };

  void follow(const Action& action) {
    const bool is_over = num_steps_ > 0;
    if (is_over && (computes(action.kind) || joins_ranks(action.kind) ||
                    action.kind == ActionKind::SumGrad || action.kind == ActionKind::ReduceGrad)) {
      report("step", text(action) + " comes after Step");
    }
    switch (action.kind) {
      case ActionKind::W:
      case ActionKind::BW:
        return make(action);
      case ActionKind::SumGrad:
        return sum(action);
      case ActionKind::JoinDirections:
        return shape_.joins_directions_first ? expect_none_reduced(action)
                                             : expect_all_reduced(action);
      case ActionKind::ReduceGrad:
        return reduce(action);
      case ActionKind::JoinTiedTable:
        return expect_all_reduced(action);
      case ActionKind::Step:
        ++num_steps_;
        return expect_all_reduced(action);
      case ActionKind::Validate:
        if (num_steps_ == 0) report("step", "Validate comes before Step");
        ++num_validations_;
        return;
      default:
        return;
    }
  }

  void make(const Action& action) {
    for_each_unit(action, shape_, [&](int unit) {
      Unit& here = units_[size_t(action.chunk)][size_t(unit)];
      if (here.is_reduced) {
        report("reduce", fmt::format("{} computes a gradient of {} after it was reduced",
                                     text(action), unit_text(action.chunk, unit)));
      }
      if (shape_.shards_grads()) make_leaf(action, unit);
    });
  }

  void make_leaf(const Action& action, int unit) {
    if (action.accumulate || action.grad_slot != 0) {
      report("reduce", text(action) + " must write its leaf to the unit's buffer");
    }
    for (int chunk = 0; chunk < int(units_.size()); ++chunk) {
      for (int other = 0; other < int(units_[size_t(chunk)].size()); ++other) {
        const int leaf = units_[size_t(chunk)][size_t(other)].leaf;
        if (leaf < 0 || !shares_memory(chunk, other, action.chunk, unit)) continue;
        report("reduce", fmt::format("{} overwrites the gradient of {}, micro-batch {}, which is "
                                     "not reduced yet",
                                     text(action), unit_text(chunk, other), leaf));
      }
    }
    for (const UnitPlace& reducing : under_way_) {
      if (!shares_memory(reducing.chunk, reducing.unit, action.chunk, unit)) continue;
      report("reduce", fmt::format("{} overwrites the gradient of {}, whose reduction may be in "
                                   "flight",
                                   text(action), unit_text(reducing.chunk, reducing.unit)));
    }
    units_[size_t(action.chunk)][size_t(unit)].leaf = action.microbatch;
  }

  // The memory plan waits for the reduction of a leaf when its slot is needed again: as many
  // reductions may be in flight as there are other slots, and none after the first unit.
  void note_reduction(const Action& action) {
    // fold_units has reported it
    if (action.chunk < 0 || action.chunk >= int(units_.size())) return;
    under_way_.push_back({action.chunk, action.first_unit});
    const size_t most = action.first_unit == 0 ? 0 : size_t(shape_.num_unit_slots) - 1;
    while (under_way_.size() > most) under_way_.pop_front();
  }

  void sum(const Action& action) {
    for_each_unit(action, shape_, [&](int unit) {
      const Unit& here = units_[size_t(action.chunk)][size_t(unit)];
      if (!here.is_reduced && here.leaf < 0) return;
      report("reduce",
             fmt::format(
                 "{} sums the gradient of {} {}", text(action), unit_text(action.chunk, unit),
                 here.is_reduced ? "after it was reduced" : "before its last leaf is reduced"));
    });
  }

  void reduce(const Action& action) {
    if (dp_ == 1) report("reduce", text(action) + " has no other rank to reduce with");
    const bool is_leaf = action.microbatch >= 0;
    if (is_leaf != shape_.shards_grads()) {
      report("reduce", fmt::format("{} reduces {} at ZeRO level {}", text(action),
                                   is_leaf ? "one micro-batch" : "the sum", shape_.zero_level));
      return;
    }
    if (is_leaf) expect_one_slot(action);
    if (is_leaf) note_reduction(action);
    for_each_unit(action, shape_, [&](int unit) {
      Unit& here = units_[size_t(action.chunk)][size_t(unit)];
      const bool is_ready = is_leaf ? here.leaf == action.microbatch : !here.is_reduced;
      if (!is_ready) {
        report("reduce",
               fmt::format("{} reduces {}, {}", text(action), unit_text(action.chunk, unit),
                           is_leaf ? "whose buffer does not hold that micro-batch"
                                   : "which is reduced already"));
      }
      here.is_reduced = !is_leaf;
      here.leaf = -1;
      if (is_leaf) here.reduced_leaves.insert(action.microbatch);
    });
  }

  // All units of a leaf must be summed in the same way.
  void expect_one_slot(const Action& action) {
    const auto [found, is_new] =
        slots_.try_emplace({action.chunk, action.microbatch}, action.grad_slot, action.accumulate);
    if (is_new || found->second == std::pair(int(action.grad_slot), action.accumulate)) return;
    report("reduce",
           text(action) + " is summed differently from the other units of its micro-batch");
  }

  void expect_none_reduced(const Action& join) {
    for_each_unit(join, shape_, [&](int unit) {
      if (!units_[size_t(join.chunk)][size_t(unit)].is_reduced) return;
      report("reduce", fmt::format("{} joins the gradient of {} after it was reduced over dp",
                                   text(join), unit_text(join.chunk, unit)));
    });
  }

  void expect_all_reduced(const Action& reader) {
    if (dp_ == 1) return;
    for (int chunk = 0; chunk < int(units_.size()); ++chunk) {
      if (reader.kind != ActionKind::Step && chunk != reader.chunk) continue;
      for (int unit = 0; unit < int(units_[size_t(chunk)].size()); ++unit) {
        const Unit& here = units_[size_t(chunk)][size_t(unit)];
        const bool is_whole = shape_.shards_grads() ? int(here.reduced_leaves.size()) ==
                                                          microbatches_[size_t(chunk)].count
                                                    : here.is_reduced;
        if (is_whole && here.leaf < 0) continue;
        report("reduce",
               fmt::format("{} reads the gradient of {}, which is not reduced over dp yet",
                           text(reader), unit_text(chunk, unit)));
      }
    }
  }

  struct UnitPlace {
    int chunk = 0;
    int unit = 0;
  };

  const std::vector<MicrobatchRange>& microbatches_;
  int dp_;
  std::deque<UnitPlace> under_way_;       // reductions of leaves in flight, oldest first
  std::vector<std::vector<Unit>> units_;  // [chunk][unit]
  std::map<std::pair<int, int>, std::pair<int, bool>> slots_;  // key: (chunk, micro-batch)
  int num_steps_ = 0;
  int num_validations_ = 0;
};

}  // namespace

std::vector<Problem> check_gradients(const Program& program, const DataParallelShape& shape,
                                     const std::vector<MicrobatchRange>& microbatches, int dp) {
  return GradientCheck(program, shape, microbatches, dp).run();
}

}  // namespace trireme
