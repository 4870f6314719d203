#include "session/idle_checks.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme {
namespace {

bool has_turn(int64_t every, int64_t step, int64_t last_step) {
  return every <= 0 || last_step / every > step / every;
}

// The state is compared before every save, too. An interval that the run chooses itself may have a
// turn.
bool saves(const CheckpointConfig& checkpoint, int64_t step, int64_t last_step) {
  const auto has_save = [&](int64_t every) {
    return every == kAutoSteps || (every > 0 && has_turn(every, step, last_step));
  };
  return checkpoint.at_end || has_save(checkpoint.every) || has_save(checkpoint.memory_every);
}

}  // namespace

std::vector<std::string> idle_checks(const RunConfig& config, int64_t step) {
  const RunSection& run = config.run;
  const int64_t last_step = run.stop_after > 0 ? std::min(run.stop_after, run.steps) : run.steps;
  std::vector<std::string> notes;
  const auto add = [&](std::string_view key, int64_t every, std::string_view what) {
    if (has_turn(every, step, last_step)) return;
    notes.push_back(fmt::format(
        "{} = {}: {} in this run, because none of its steps {} to {} is a multiple of {}; lower it "
        "to at most {}, or set 0",
        key, every, what, step + 1, last_step, every, last_step - step));
  };
  add("run.replay_every", run.replay_every, "no step is computed twice");
  add("run.check_products_every", run.check_products_every, "no product is checked");
  if (!saves(config.checkpoint, step, last_step)) {
    add("run.check_state_every", run.check_state_every, "the state of ranks is never compared");
  }
  return notes;
}

}  // namespace trireme
