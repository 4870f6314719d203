#include "program/data_parallel.h"

#include <algorithm>
#include <cstdint>

namespace trireme {
namespace {

bool makes_weight_grad(const Action& action) {
  return action.kind == ActionKind::W || action.kind == ActionKind::BW;
}

bool is_backward(const Action& action) {
  return action.kind == ActionKind::B || makes_weight_grad(action);
}

Action unit_of(Action action, int unit) {
  action.first_unit = static_cast<int16_t>(unit);
  action.num_units = 1;
  return action;
}

Action on_units(ActionKind kind, int chunk, int first_unit, int num_units) {
  return {.kind = kind,
          .chunk = static_cast<int16_t>(chunk),
          .microbatch = -1,
          .first_unit = static_cast<int16_t>(first_unit),
          .num_units = static_cast<int16_t>(num_units)};
}

// Levels 0 and 1: what stands from `begin` to `end` makes the last leaf and joins it.
void reduce_last(Program& result, const Program& program, size_t begin, size_t end,
                 const DataParallelShape& shape) {
  const int chunk = program[begin].chunk;
  for (int unit = shape.num_units[chunk]; unit-- > 0;) {
    for (size_t i = begin; i < end; ++i) result.push_back(unit_of(program[i], unit));
    result.push_back(on_units(ActionKind::ReduceGrad, chunk, unit, 1));
  }
}

// Levels 2 and 3: the leaf lives in the unit's buffer until it has been reduced.
void reduce_leaf(Program& result, const Action& action, const DataParallelShape& shape) {
  for (int unit = shape.num_units[action.chunk]; unit-- > 0;) {
    Action leaf = unit_of(action, unit);
    Action reduce = leaf;
    reduce.kind = ActionKind::ReduceGrad;
    leaf.grad_slot = 0;
    leaf.accumulate = false;
    result.push_back(leaf);
    result.push_back(reduce);
  }
}

// A stretch of the program that needs one unit gathered.
struct Use {
  int chunk = 0;
  int unit = 0;
  int slot = 0;
  size_t first = 0;
  size_t last = 0;
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
          result.push_back(on_units(kind, int(chunk), unit, 1));
        }
      }
    };
    each_kept(ActionKind::Unshard);
    for (size_t i = 0; i < program_.size(); ++i) {
      if (program_[i].kind == ActionKind::Step) each_kept(ActionKind::Reshard);
      result.insert(result.end(), before_[i].begin(), before_[i].end());
      result.push_back(program_[i]);
      result.insert(result.end(), after_[i].begin(), after_[i].end());
    }
    const bool has_step = !program_.empty() && program_.back().kind == ActionKind::Step;
    if (!has_step) each_kept(ActionKind::Reshard);
    return result;
  }

 private:
  bool reads_params(const Action& action) const {
    const bool computes = action.kind == ActionKind::F || is_backward(action);
    if (!computes || shape_.kept_gathered[action.chunk][action.first_unit]) return false;
    return action.kind != ActionKind::W || shape_.w_reads_params[action.chunk][action.first_unit];
  }

  int slot_of(const Action& action) const {
    int turn = action.first_unit;
    for (int chunk = 0; chunk < action.chunk; ++chunk) turn += shape_.num_units[chunk];
    return turn % shape_.num_unit_slots;
  }

  void find_uses() {
    for (size_t i = 0; i < program_.size(); ++i) {
      const Action& action = program_[i];
      if (!reads_params(action)) continue;
      const bool goes_on = !uses_.empty() && uses_.back().chunk == action.chunk &&
                           uses_.back().unit == action.first_unit;
      if (goes_on) {
        uses_.back().last = i;
      } else {
        uses_.push_back({action.chunk, action.first_unit, slot_of(action), i, i});
      }
    }
  }

  void place() {
    const size_t ahead = static_cast<size_t>(shape_.num_unit_slots - 1);
    std::vector<size_t> free_from(static_cast<size_t>(shape_.num_unit_slots), 0);
    for (size_t i = 0; i < uses_.size(); ++i) {
      const Use& use = uses_[i];
      const size_t wanted = i >= ahead ? uses_[i - ahead].first : 0;
      const size_t position = std::max(wanted, free_from[use.slot]);
      before_[position].push_back(on_units(ActionKind::Unshard, use.chunk, use.unit, 1));
      after_[use.last].push_back(on_units(ActionKind::Reshard, use.chunk, use.unit, 1));
      free_from[use.slot] = use.last + 1;
    }
  }

  const Program& program_;
  const DataParallelShape& shape_;
  std::vector<Use> uses_;
  std::vector<Program> before_, after_;  // [position] what is inserted there
};

Program cut_into_units(const Program& program, const DataParallelShape& shape) {
  Program result;
  for (const Action& action : program) {
    const bool is_whole = action.num_units == 0;
    if (is_whole && action.kind == ActionKind::F) {
      for (int unit = 0; unit < shape.num_units[action.chunk]; ++unit) {
        result.push_back(unit_of(action, unit));
      }
    } else if (is_whole && is_backward(action)) {
      for (int unit = shape.num_units[action.chunk]; unit-- > 0;) {
        result.push_back(unit_of(action, unit));
      }
    } else {
      result.push_back(action);
    }
  }
  return result;
}

}  // namespace

Program unpair(const Program& program) {
  Program result;
  for (const Action& action : program) {
    if (action.kind != ActionKind::FB) {
      result.push_back(action);
      continue;
    }
    Action backward = action;
    backward.kind = ActionKind::BW;
    backward.chunk = action.chunk_b;
    backward.microbatch = action.microbatch_b;
    backward.chunk_b = -1;
    backward.microbatch_b = -1;
    result.push_back(
        {.kind = ActionKind::F, .chunk = action.chunk, .microbatch = action.microbatch});
    result.push_back(backward);
  }
  return result;
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

Program add_unshard(const Program& program, const DataParallelShape& shape) {
  if (shape.shards_params()) {
    const Program units = cut_into_units(program, shape);
    return Gathering(units, shape).run();
  }
  Program result = program;
  const bool has_step = !program.empty() && program.back().kind == ActionKind::Step;
  if (shape.zero_level == 0 || !has_step) return result;
  for (size_t chunk = 0; chunk < shape.num_units.size(); ++chunk) {
    result.push_back(on_units(ActionKind::Unshard, int(chunk), 0, shape.num_units[chunk]));
  }
  return result;
}

}  // namespace trireme
