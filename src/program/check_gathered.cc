#include "program/check_data_parallel.h"
#include "program/program_check.h"

namespace trireme {
namespace {

class GatherCheck : public ProgramCheck {
 public:
  GatherCheck(const Program& program, const DataParallelShape& shape)
      : ProgramCheck(program, shape) {
    for (const int units : shape.num_units) {
      states_.emplace_back(size_t(units), State::Away);
      num_gathers_.emplace_back(size_t(units), 0);
      num_stores_.emplace_back(size_t(units), 0);
    }
  }

  std::vector<Problem> run() && {
    for (position_ = 0; position_ < int(program_.size()); ++position_) {
      const Action& action = program_[size_t(position_)];
      if (action.kind == ActionKind::Validate) is_validated_ = true;
      if (action.kind == ActionKind::Step) ++num_steps_;
      if (shape_.gathers_params()) follow_memory(action);
      if (!shape_.shards_params()) follow_stored(action);
    }
    position_ = -1;
    finish();
    return std::move(problems_);
  }

 private:
  // Contents of a unit's memory: nothing, the shard from the file, or all parameters.
  enum class State { Away, Fetched, There };
  State& state(int chunk, int unit) { return states_[size_t(chunk)][size_t(unit)]; }

  // After Step the parameters of levels 1 and 2 are gathered once more and stored.
  bool gathers_updated() const { return shape_.gathers_updated() && num_steps_ > 0; }

  // For level 3 and for parameters in a file: parameters are read where they were gathered.
  void follow_memory(const Action& action) {
    if (is_of_piece(action.kind)) return follow_piece(action);
    switch (action.kind) {
      case ActionKind::Step:
        return expect_all_away("Step writes the parameters of");
      case ActionKind::FetchUnits:
        if (!shape_.params_in_file) report("gather", text(action) + " has no file to read");
        return for_each_unit(action, shape_, [&](int unit) { take_memory(action, unit); });
      case ActionKind::Unshard:
        return for_each_unit(action, shape_, [&](int unit) { gather(action, unit); });
      case ActionKind::OffloadUnits:
        return for_each_unit(action, shape_, [&](int unit) { store(action, unit); });
      case ActionKind::Reshard:
        return for_each_unit(action, shape_, [&](int unit) { give_up(action, unit); });
      default:
        if (!computes(action.kind)) return;
        return for_each_unit(action, shape_, [&](int unit) { use(action, unit); });
    }
  }

  // Every piece must be written to the file before the updated parameters are gathered.
  void follow_piece(const Action& action) {
    if (action.kind == ActionKind::FetchPiece) return;
    expect_all_away(text(action) + " writes the parameters of");
    if (has_stored_) report("gather", text(action) + " comes after the gathers of what it wrote");
  }

  void use(const Action& action, int unit) {
    const auto chunk = size_t(action.chunk);
    const bool reads = action.kind != ActionKind::W || shape_.w_reads_params[chunk][size_t(unit)];
    if (!reads || state(action.chunk, unit) == State::There) return;
    report("gather", fmt::format("{} reads the parameters of {}, which are not gathered",
                                 text(action), unit_text(action.chunk, unit)));
  }

  void give_up(const Action& action, int unit) {
    if (state(action.chunk, unit) != State::There) {
      report("gather", text(action) + " releases parameters that are not gathered");
    }
    state(action.chunk, unit) = State::Away;
  }

  void gather(const Action& action, int unit) {
    if (!shape_.params_in_file) return take_memory(action, unit);
    if (state(action.chunk, unit) != State::Fetched) {
      report("gather", text(action) + " gathers a shard that has not been fetched");
    }
    state(action.chunk, unit) = State::There;
  }

  void store(const Action& action, int unit) {
    if (!gathers_updated())
      report("gather", text(action) + " stores parameters that were not changed");
    if (state(action.chunk, unit) != State::There) {
      report("gather", text(action) + " stores parameters that are not gathered");
    }
    has_stored_ = true;
    ++num_stores_[size_t(action.chunk)][size_t(unit)];
  }

  void take_memory(const Action& action, int unit) {
    if (num_steps_ > 0 && !gathers_updated()) report("gather", text(action) + " comes after Step");
    for (int chunk = 0; chunk < int(states_.size()); ++chunk) {
      for (int other = 0; other < int(states_[size_t(chunk)].size()); ++other) {
        if (state(chunk, other) == State::Away) continue;
        const bool is_same = chunk == action.chunk && other == unit;
        const bool is_kept = shape_.kept_gathered[size_t(chunk)][size_t(other)] ||
                             shape_.kept_gathered[size_t(action.chunk)][size_t(unit)];
        if (!is_same && (is_kept || !shares_memory(chunk, other, action.chunk, unit))) continue;
        report("gather", fmt::format("{} takes the memory of {}, which is not released yet",
                                     text(action), unit_text(chunk, other)));
      }
    }
    const bool is_part =
        action.kind == ActionKind::FetchUnits && (shape_.shards_params() || gathers_updated());
    state(action.chunk, unit) = is_part ? State::Fetched : State::There;
  }

  // For levels 0 to 2: parameters are stored unsharded, and updated shards are gathered after Step.
  void follow_stored(const Action& action) {
    if (action.kind == ActionKind::Reshard && !shape_.params_in_file) {
      report("gather", text(action) + " releases parameters that are stored");
    }
    if (action.kind == ActionKind::OffloadUnits && !shape_.params_in_file) {
      report("gather", text(action) + " has no file to write");
    }
    if (action.kind != ActionKind::Unshard) return;
    if (num_steps_ == 0) report("gather", text(action) + " comes before Step");
    if (shape_.post_validates && !is_validated_) {
      report("gather", text(action) + " gathers parameters that Validate may still change");
    }
    for_each_unit(action, shape_,
                  [&](int unit) { ++num_gathers_[size_t(action.chunk)][size_t(unit)]; });
  }

  void expect_all_away(std::string_view what) {
    for (int chunk = 0; chunk < int(states_.size()); ++chunk) {
      for (int unit = 0; unit < int(states_[size_t(chunk)].size()); ++unit) {
        if (state(chunk, unit) == State::Away) continue;
        report("gather", fmt::format("{} {}, which is not released", what, unit_text(chunk, unit)));
      }
    }
  }

  void finish() {
    if (shape_.gathers_params()) expect_all_away("the program ends with");
    if (shape_.shards_params()) return;
    expect_once("gathered", num_gathers_, gathers_updated());
    expect_once("stored", num_stores_, gathers_updated() && shape_.params_in_file);
  }

  void expect_once(std::string_view what, const std::vector<std::vector<int>>& counts,
                   bool is_due) {
    const int wanted = is_due ? 1 : 0;
    for (int chunk = 0; chunk < int(counts.size()); ++chunk) {
      for (int unit = 0; unit < int(counts[size_t(chunk)].size()); ++unit) {
        const int count = counts[size_t(chunk)][size_t(unit)];
        if (count == wanted) continue;
        report("gather", fmt::format("{} is {} {} times after Step instead of {}",
                                     unit_text(chunk, unit), what, count, wanted));
      }
    }
  }

  std::vector<std::vector<State>> states_;                  // [chunk][unit]
  std::vector<std::vector<int>> num_gathers_, num_stores_;  // [chunk][unit]
  int num_steps_ = 0;
  bool is_validated_ = false;
  bool has_stored_ = false;
};

}  // namespace

std::vector<Problem> check_gathered(const Program& program, const DataParallelShape& shape) {
  return GatherCheck(program, shape).run();
}

}  // namespace trireme
