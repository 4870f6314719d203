#include "program/data_parallel.h"

#include <algorithm>
#include <cstdint>

namespace trireme {
namespace {

bool makes_weight_grad(const Action& action) {
  return action.kind == ActionKind::W || action.kind == ActionKind::BW;
}

bool is_step(const Action& action) { return action.kind == ActionKind::Step; }

bool has_step(const Program& program) {
  return std::any_of(program.begin(), program.end(), is_step);
}

bool is_backward(const Action& action) {
  return action.kind == ActionKind::B || makes_weight_grad(action);
}

Action part_of(Action action, const UnitGroup& group) {
  action.first_unit = static_cast<int16_t>(group.first_unit);
  action.num_units = static_cast<int16_t>(group.num_units);
  return action;
}

Action on_units(ActionKind kind, int chunk, const UnitGroup& group) {
  return part_of({.kind = kind, .chunk = static_cast<int16_t>(chunk), .microbatch = -1}, group);
}

// Calls visit(group) for the groups of a chunk, last first, which is the order of the backward
// pass.
template <typename Visit>
void for_each_group_backwards(const DataParallelShape& shape, int chunk, Visit&& visit) {
  const std::vector<UnitGroup>& groups = shape.groups[size_t(chunk)];
  for (size_t i = groups.size(); i-- > 0;) visit(groups[i]);
}

// Levels 0 and 1: the actions in [begin, end) compute the last leaf and join it.
void reduce_last(Program& result, const Program& program, size_t begin, size_t end,
                 const DataParallelShape& shape) {
  const int chunk = program[begin].chunk;
  for_each_group_backwards(shape, chunk, [&](const UnitGroup& group) {
    for (size_t i = begin; i < end; ++i) result.push_back(part_of(program[i], group));
    result.push_back(on_units(ActionKind::ReduceGrad, chunk, group));
  });
}

// Levels 2 and 3: the leaf stays in the unit's buffer until it was reduced.
void reduce_leaf(Program& result, const Action& action, const DataParallelShape& shape) {
  for_each_group_backwards(shape, action.chunk, [&](const UnitGroup& group) {
    Action leaf = part_of(action, group);
    Action reduce = leaf;
    reduce.kind = ActionKind::ReduceGrad;
    leaf.grad_slot = 0;
    leaf.accumulate = false;
    result.push_back(leaf);
    result.push_back(reduce);
  });
}

bool stores_units(const Action& action) { return action.kind == ActionKind::OffloadUnits; }

// A range of the program that needs one group of units gathered.
struct Use {
  int chunk = 0;
  UnitGroup group;
  int slot = 0;
  size_t first = 0;
  size_t last = 0;
  bool is_stored = false;  // gathered after Step, once everything was updated
};

class Gathering {
 public:
  Gathering(const Program& program, const DataParallelShape& shape)
      : program_(program), shape_(shape), before_(program.size() + 1), after_(program.size()) {
    find_uses();
    place();
  }

  Program run() const {
    Program result;
    const auto each_kept = [&](ActionKind kind) {
      for (size_t chunk = 0; chunk < shape_.num_units.size(); ++chunk) {
        for (int unit = 0; unit < shape_.num_units[chunk]; ++unit) {
          if (!shape_.kept_gathered[chunk][unit]) continue;
          result.push_back(on_units(kind, int(chunk), {unit, 1}));
        }
      }
    };
    if (shape_.params_in_file) each_kept(ActionKind::FetchUnits);
    if (shape_.shards_params()) each_kept(ActionKind::Unshard);
    for (size_t i = 0; i < program_.size(); ++i) {
      if (is_step(program_[i])) each_kept(ActionKind::Reshard);
      result.insert(result.end(), before_[i].begin(), before_[i].end());
      result.push_back(program_[i]);
      result.insert(result.end(), after_[i].begin(), after_[i].end());
    }
    if (!has_step(program_)) each_kept(ActionKind::Reshard);
    return result;
  }

 private:
  bool reads_params(const Action& action) const {
    if (stores_units(action)) return true;
    const bool computes = action.kind == ActionKind::F || is_backward(action);
    if (!computes || shape_.kept_gathered[action.chunk][action.first_unit]) return false;
    if (action.kind != ActionKind::W) return true;
    const auto first = shape_.w_reads_params[action.chunk].begin() + action.first_unit;
    return std::find(first, first + action.num_units, true) != first + action.num_units;
  }

  void find_uses() {
    for (size_t i = 0; i < program_.size(); ++i) {
      const Action& action = program_[i];
      if (!reads_params(action)) continue;
      const bool continues = !uses_.empty() && uses_.back().chunk == action.chunk &&
                             uses_.back().group.first_unit == action.first_unit &&
                             uses_.back().is_stored == stores_units(action);
      if (continues) {
        uses_.back().last = i;
      } else {
        uses_.push_back({action.chunk,
                         {action.first_unit, action.num_units},
                         shape_.slot_of(action.chunk, action.first_unit),
                         i,
                         i,
                         stores_units(action)});
      }
    }
  }

  void place() {
    const size_t ahead = static_cast<size_t>(shape_.num_unit_slots - 1);
    std::vector<size_t> free_from(static_cast<size_t>(shape_.num_unit_slots), 0);
    size_t before = 0;  // gathers share one link, so they keep the order of their uses
    for (size_t i = 0; i < uses_.size(); ++i) {
      const Use& use = uses_[i];
      const size_t wanted = i >= ahead ? uses_[i - ahead].first : 0;
      const bool is_first_stored = use.is_stored && (i == 0 || !uses_[i - 1].is_stored);
      if (is_first_stored) before = use.first;
      const size_t position = std::max({wanted, free_from[use.slot], before});
      before = position;
      if (shape_.params_in_file) {
        before_[position].push_back(on_units(ActionKind::FetchUnits, use.chunk, use.group));
      }
      if (shape_.shards_params() || use.is_stored) {
        const size_t behind_fetch = shape_.params_in_file ? 1 : 0;
        const size_t gathers = ahead > behind_fetch ? ahead - behind_fetch : 0;
        const size_t soonest = i >= gathers ? uses_[i - gathers].first : 0;
        before_[std::max(soonest, position)].push_back(
            on_units(ActionKind::Unshard, use.chunk, use.group));
      }
      after_[use.last].push_back(on_units(ActionKind::Reshard, use.chunk, use.group));
      free_from[use.slot] = use.last + 1;
    }
  }

  const Program& program_;
  const DataParallelShape& shape_;
  std::vector<Use> uses_;
  std::vector<Program> before_, after_;  // [position] actions to insert before and after it
};

Program cut_into_units(const Program& program, const DataParallelShape& shape) {
  Program result;
  for (const Action& action : program) {
    const bool is_whole = action.num_units == 0;
    if (is_whole && action.kind == ActionKind::F) {
      for (const UnitGroup& group : shape.groups[size_t(action.chunk)]) {
        result.push_back(part_of(action, group));
      }
    } else if (is_whole && is_backward(action)) {
      for_each_group_backwards(shape, action.chunk, [&](const UnitGroup& group) {
        result.push_back(part_of(action, group));
      });
    } else {
      result.push_back(action);
    }
  }
  return result;
}

// Levels 1 and 2: gathers what other ranks have updated. If parameters are in a file they pass
// through the memory of gathered units.
void gather_updated(Program& program, const DataParallelShape& shape) {
  for (size_t chunk = 0; chunk < shape.num_units.size(); ++chunk) {
    if (!shape.params_in_file) {
      program.push_back(on_units(ActionKind::Unshard, int(chunk), {0, shape.num_units[chunk]}));
      continue;
    }
    for (const UnitGroup& group : shape.groups[chunk]) {
      program.push_back(on_units(ActionKind::OffloadUnits, int(chunk), group));
    }
  }
}

// Returns which units' parameters W reads: those of the head, which projects again in fp32, and
// those of units whose activations are recomputed.
std::vector<bool> units_whose_w_reads(const StageSpec& stage, const StageShape& shape) {
  std::vector<bool> reads(size_t(num_units(stage)), shape.recomputes());
  if (stage.has_embedding) reads.front() = true;
  if (stage.has_head) reads.back() = true;
  return reads;
}

std::vector<std::string> unit_names(const StageSpec& stage) {
  std::vector<std::string> names;
  if (stage.has_embedding) names.emplace_back("embedding");
  for (int64_t layer = 0; layer < stage.num_layers; ++layer) {
    names.push_back("layers." + std::to_string(stage.first_layer + layer));
  }
  if (stage.has_head) names.emplace_back("head");
  return names;
}

}  // namespace

int DataParallelShape::group_of(int chunk, int unit) const {
  const std::vector<UnitGroup>& of_chunk = groups[size_t(chunk)];
  int index = 0;
  while (index + 1 < int(of_chunk.size()) && of_chunk[size_t(index) + 1].first_unit <= unit)
    ++index;
  return index;
}

int DataParallelShape::slot_of(int chunk, int unit) const {
  int turn = group_of(chunk, unit);
  for (int before = 0; before < chunk; ++before) turn += int(groups[size_t(before)].size());
  return turn % num_unit_slots;
}

DataParallelShape data_parallel_shape(const RankPlan& rank) {
  DataParallelShape result{.zero_level = rank.zero.level,
                           .params_in_file = rank.chunks.front().params_in_file,
                           .post_validates = rank.post_validates,
                           .joins_directions_first = rank.joins_directions_first,
                           .num_unit_slots = rank.num_unit_slots};
  for (const ChunkTables& chunk : rank.chunks) {
    const int units = num_units(chunk.stage);
    result.num_units.push_back(units);
    result.unit_names.push_back(unit_names(chunk.stage));
    result.groups.push_back(chunk.groups);
    result.num_pieces.push_back(int(chunk.pieces.size()));
    std::vector<bool> kept;
    for (int unit = 0; unit < units; ++unit) kept.push_back(stays_gathered(chunk, unit));
    result.kept_gathered.push_back(std::move(kept));
    result.w_reads_params.push_back(units_whose_w_reads(chunk.stage, rank.shape));
  }
  return result;
}

MicrobatchMap microbatches_of(const RankPlan& rank, const Schedule& schedule, int dp, int index) {
  const int m = schedule.num_microbatches * rank.lanes.count;
  if (rank.zero.shards_grads()) return MicrobatchMap::strided(m, dp, index);
  const bool has_halves =
      schedule.placement == StagePlacement::Bidir && !rank.joins_directions_first;
  return has_halves ? MicrobatchMap::contiguous_halves(m, dp, index)
                    : MicrobatchMap::contiguous(m, dp, index);
}

Program add_reduce_grad(const Program& program, const DataParallelShape& shape) {
  std::vector<size_t> last_leaf(shape.num_units.size(), SIZE_MAX);
  for (size_t i = 0; i < program.size(); ++i) {
    if (makes_weight_grad(program[i])) last_leaf[program[i].chunk] = i;
  }
  Program result;
  for (size_t i = 0; i < program.size(); ++i) {
    const Action& action = program[i];
    if (!makes_weight_grad(action)) {
      result.push_back(action);
    } else if (shape.shards_grads()) {
      reduce_leaf(result, action, shape);
    } else if (i == last_leaf[action.chunk]) {
      size_t end = i + 1;
      while (end < program.size() && program[end].kind == ActionKind::SumGrad) ++end;
      reduce_last(result, program, i, end, shape);
      i = end - 1;
    } else {
      result.push_back(action);
    }
  }
  return result;
}

void append_reduce_grad(Program& program, const DataParallelShape& shape) {
  for (size_t chunk = 0; chunk < shape.groups.size(); ++chunk) {
    for_each_group_backwards(shape, int(chunk), [&](const UnitGroup& group) {
      program.push_back(on_units(ActionKind::ReduceGrad, int(chunk), group));
    });
  }
}

Program add_unshard(const Program& program, const DataParallelShape& shape) {
  Program result = program;
  if (shape.gathers_updated() && has_step(program)) gather_updated(result, shape);
  if (!shape.gathers_params()) return result;
  return Gathering(cut_into_units(result, shape), shape).run();
}

}  // namespace trireme
