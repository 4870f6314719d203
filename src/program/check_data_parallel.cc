#include "program/check_data_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>

namespace trireme {
namespace {

bool makes_weight_grad(ActionKind kind) { return kind == ActionKind::W || kind == ActionKind::BW; }

bool computes(ActionKind kind) {
  return kind == ActionKind::F || kind == ActionKind::B || makes_weight_grad(kind);
}

// Calls visit(unit) for the units of an action that the rank has.
template <typename Visit>
void for_each_unit(const Action& action, const DataParallelShape& shape, Visit&& visit) {
  if (action.chunk < 0 || action.chunk >= int(shape.num_units.size())) return;
  const int units = shape.num_units[size_t(action.chunk)];
  const int begin = std::max<int>(action.first_unit, 0);
  const int end = action.num_units == 0 ? units : action.first_unit + action.num_units;
  for (int unit = begin; unit < std::min(end, units); ++unit) visit(unit);
}

class ProgramCheck {
 public:
  ProgramCheck(const Program& program, const DataParallelShape& shape)
      : program_(program), shape_(shape) {}

 protected:
  void report(std::string rule, std::string message) {
    problems_.push_back({std::move(rule), -1, position_, std::move(message)});
  }
  std::string text(const Action& action) const {
    return to_string(action, int(shape_.num_units.size()));
  }
  std::string unit_text(int chunk, int unit) const {
    if (!shape_.unit_names.empty()) return shape_.unit_names[size_t(chunk)][size_t(unit)];
    return shape_.num_units.size() > 1 ? fmt::format("unit {} of chunk {}", unit, chunk)
                                       : fmt::format("unit {}", unit);
  }

  // Units of one group lie side by side, those of others may have its slot.
  bool shares_memory(int chunk, int unit, int other_chunk, int other_unit) const {
    if (chunk == other_chunk && unit == other_unit) return true;
    if (chunk == other_chunk &&
        shape_.group_of(chunk, unit) == shape_.group_of(chunk, other_unit)) {
      return false;
    }
    return shape_.slot_of(chunk, unit) == shape_.slot_of(other_chunk, other_unit);
  }

  const Program& program_;
  const DataParallelShape& shape_;
  int position_ = -1;
  std::vector<Problem> problems_;
};

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
    bool is_reduced = false;  // levels 0 and 1
    int leaf = -1;            // levels 2 and 3: the micro-batch in the unit's buffer
    std::set<int> reduced_leaves;
  };

  void follow(const Action& action) {
    const bool is_over = num_steps_ > 0;
    if (is_over && (computes(action.kind) || action.kind == ActionKind::SumGrad ||
                    action.kind == ActionKind::ReduceGrad)) {
      report("step", text(action) + " stands behind Step");
    }
    switch (action.kind) {
      case ActionKind::W:
      case ActionKind::BW:
        return make(action);
      case ActionKind::SumGrad:
        return action.peer >= 0 ? expect_all_reduced(action) : sum(action);
      case ActionKind::ReduceGrad:
        return action.peer >= 0 ? expect_all_reduced(action) : reduce(action);
      case ActionKind::Step:
        if (action.microbatch >= 0) return;  // of a piece
        ++num_steps_;
        return expect_all_reduced(action);
      case ActionKind::Validate:
        if (num_steps_ == 0) report("step", "Validate stands before Step");
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
        report("reduce", fmt::format("{} makes a gradient of {} after it was reduced", text(action),
                                     unit_text(action.chunk, unit)));
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
      report("reduce", fmt::format("{} overwrites the gradient of {}, whose reduction may be under "
                                   "way",
                                   text(action), unit_text(reducing.chunk, reducing.unit)));
    }
    units_[size_t(action.chunk)][size_t(unit)].leaf = action.microbatch;
  }

  // A leaf's reduction is over where the memory plan waits for it: as many stay under way as there
  // are other slots, and none behind the first unit.
  void note_reduction(const Action& action) {
    if (action.chunk < 0 || action.chunk >= int(units_.size())) return;  // said by fold_units
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
    if (dp_ == 1) report("reduce", text(action) + " has nobody to reduce with");
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

  // All units of a leaf are summed alike.
  void expect_one_slot(const Action& action) {
    const auto [found, is_new] =
        slots_.try_emplace({action.chunk, action.microbatch}, action.grad_slot, action.accumulate);
    if (is_new || found->second == std::pair(int(action.grad_slot), action.accumulate)) return;
    report("reduce", text(action) + " sums otherwise than the other units of its micro-batch");
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
  std::deque<UnitPlace> under_way_;                            // reductions of leaves, oldest first
  std::vector<std::vector<Unit>> units_;                       // [chunk][unit]
  std::map<std::pair<int, int>, std::pair<int, bool>> slots_;  // of (chunk, micro-batch)
  int num_steps_ = 0;
  int num_validations_ = 0;
};

class GatherCheck : public ProgramCheck {
 public:
  GatherCheck(const Program& program, const DataParallelShape& shape)
      : ProgramCheck(program, shape) {
    for (const int units : shape.num_units) {
      is_gathered_.emplace_back(size_t(units), char{0});
      num_gathers_.emplace_back(size_t(units), 0);
    }
  }

  std::vector<Problem> run() && {
    for (position_ = 0; position_ < int(program_.size()); ++position_) {
      const Action& action = program_[size_t(position_)];
      if (shape_.shards_params()) {
        follow(action);
      } else {
        follow_stored(action);
      }
    }
    position_ = -1;
    finish();
    return std::move(problems_);
  }

 private:
  // Level 3.
  void follow(const Action& action) {
    if (action.kind == ActionKind::Step) {
      num_steps_ += action.microbatch < 0 ? 1 : 0;
      return expect_none_gathered("Step writes the shards of");
    }
    if (action.kind == ActionKind::Unshard) {
      for_each_unit(action, shape_, [&](int unit) { gather(action, unit); });
    } else if (action.kind == ActionKind::Reshard) {
      for_each_unit(action, shape_, [&](int unit) {
        if (!is_gathered_[size_t(action.chunk)][size_t(unit)]) {
          report("gather", text(action) + " gives up what is not gathered");
        }
        is_gathered_[size_t(action.chunk)][size_t(unit)] = 0;
      });
    } else if (computes(action.kind)) {
      for_each_unit(action, shape_, [&](int unit) { use(action, unit); });
    }
  }

  void use(const Action& action, int unit) {
    const auto chunk = size_t(action.chunk);
    const bool reads = action.kind != ActionKind::W || shape_.w_reads_params[chunk][size_t(unit)];
    if (!reads || is_gathered_[chunk][size_t(unit)]) return;
    report("gather", fmt::format("{} reads the parameters of {}, which is not gathered",
                                 text(action), unit_text(action.chunk, unit)));
  }

  void gather(const Action& action, int unit) {
    if (num_steps_ > 0) report("gather", text(action) + " stands behind Step");
    for (int chunk = 0; chunk < int(is_gathered_.size()); ++chunk) {
      for (int other = 0; other < int(is_gathered_[size_t(chunk)].size()); ++other) {
        if (!is_gathered_[size_t(chunk)][size_t(other)]) continue;
        const bool is_same = chunk == action.chunk && other == unit;
        const bool is_kept = shape_.kept_gathered[size_t(chunk)][size_t(other)] ||
                             shape_.kept_gathered[size_t(action.chunk)][size_t(unit)];
        if (!is_same && (is_kept || !shares_memory(chunk, other, action.chunk, unit))) continue;
        report("gather", fmt::format("{} takes the memory of {}, which is not given up yet",
                                     text(action), unit_text(chunk, other)));
      }
    }
    is_gathered_[size_t(action.chunk)][size_t(unit)] = 1;
  }

  // Levels 0 to 2: parameters are stored whole; shards are gathered behind Step.
  void follow_stored(const Action& action) {
    if (action.kind == ActionKind::Step && action.microbatch < 0) ++num_steps_;
    if (action.kind == ActionKind::Validate) is_validated_ = true;
    if (action.kind == ActionKind::Reshard) {
      report("gather", text(action) + " gives up what is stored");
    }
    if (action.kind != ActionKind::Unshard) return;
    if (num_steps_ == 0) report("gather", text(action) + " stands before Step");
    if (shape_.post_validates && !is_validated_) {
      report("gather", text(action) + " gathers what Validate may still change");
    }
    for_each_unit(action, shape_,
                  [&](int unit) { ++num_gathers_[size_t(action.chunk)][size_t(unit)]; });
  }

  void expect_none_gathered(std::string_view what) {
    for (int chunk = 0; chunk < int(is_gathered_.size()); ++chunk) {
      for (int unit = 0; unit < int(is_gathered_[size_t(chunk)].size()); ++unit) {
        if (!is_gathered_[size_t(chunk)][size_t(unit)]) continue;
        report("gather",
               fmt::format("{} {}, which is still gathered", what, unit_text(chunk, unit)));
      }
    }
  }

  void finish() {
    if (shape_.shards_params()) return expect_none_gathered("the program ends without giving up");
    const int wanted = shape_.zero_level > 0 && num_steps_ > 0 ? 1 : 0;
    for (int chunk = 0; chunk < int(num_gathers_.size()); ++chunk) {
      for (int unit = 0; unit < int(num_gathers_[size_t(chunk)].size()); ++unit) {
        const int count = num_gathers_[size_t(chunk)][size_t(unit)];
        if (count == wanted) continue;
        report("gather", fmt::format("{} is gathered {} times behind Step instead of {}",
                                     unit_text(chunk, unit), count, wanted));
      }
    }
  }

  std::vector<std::vector<char>> is_gathered_;  // [chunk][unit]
  std::vector<std::vector<int>> num_gathers_;   // [chunk][unit]
  int num_steps_ = 0;
  bool is_validated_ = false;
};

}  // namespace

std::vector<Problem> check_gradients(const Program& program, const DataParallelShape& shape,
                                     const std::vector<MicrobatchRange>& microbatches, int dp) {
  return GradientCheck(program, shape, microbatches, dp).run();
}

std::vector<Problem> check_gathered(const Program& program, const DataParallelShape& shape) {
  return GatherCheck(program, shape).run();
}

}  // namespace trireme
