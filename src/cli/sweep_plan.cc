#include "cli/sweep_plan.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "api/this_machine.h"
#include "checkpoint/find_checkpoint.h"
#include "cli/path_checks.h"
#include "schema/run_config_text.h"
#include "session/resumed_config.h"
#include "session/session.h"
#include "store/store_path.h"
#include "sweep/sweep_points.h"
#include "train/run_state.h"

namespace trireme {
namespace {

Status check_options(const SweepOptions& options) {
  const bool has_range = !options.lr_range.empty();
  if (options.over.empty() && !has_range) {
    return usage(
        "nothing is swept: name a key and its values, such as --over optim.lr=1e-4..1e-2:log5, or "
        "test a range of learning rates with --lr-range 1e-6..1");
  }
  if (is_store_url(options.out)) {
    return usage("--out " + options.out + ": the trials are compared on this host; name a folder");
  }
  if (!options.over.empty() && has_range) {
    return usage("--lr-range is a single run and takes no --over; run one after the other");
  }
  if (options.random && has_range) {
    return usage("--random draws points of --over, and --lr-range has none; leave it out");
  }
  if (options.steps && !has_range) {
    return usage(
        "--steps belongs to --lr-range; write --set run.steps=N for all trials of a sweep");
  }
  if (options.steps && *options.steps < 1) {
    return usage(fmt::format("--steps {}: expected 1 or more", *options.steps));
  }
  if (!(options.grace >= 0.0 && options.grace <= 1.0)) {
    return usage(
        fmt::format("--grace {}: expected a share of the steps between 0 and 1, such as "
                    "0.25",
                    options.grace));
  }
  return Done{};
}

// Refuses settings of a run that a trial of a sweep cannot have.
Status check_trial(const RunConfig& config) {
  if (config.run.stop_after > 0) {
    return usage(
        fmt::format("run.stop_after = {} would break off every trial; set run.steps to "
                    "train shorter",
                    config.run.stop_after));
  }
  if (!config.checkpoint.fallback_folder.empty()) {
    return usage(
        fmt::format("checkpoint.fallback_folder = \"{}\" takes checkpoints of one run, and "
                    "the trials would share it; leave it out",
                    config.checkpoint.fallback_folder));
  }
  if (!config.checkpoint.store.empty()) {
    return usage(
        fmt::format("checkpoint.store = \"{}\" names the copy of one run, and the trials would "
                    "share it; leave it out",
                    config.checkpoint.store));
  }
  if (config.run.backend != BackendChoice::Local) {
    return usage(
        fmt::format("run.backend = \"{}\" needs a launcher, and the ranks of a trial are "
                    "threads of trireme sweep; leave it out",
                    name_of(config.run.backend)));
  }
  return Done{};
}

// The settings that make a run a range test. Nothing but its last step may end it, and what it has
// trained is not kept.
std::vector<std::string> range_overrides(const LrRange& range, const SweepOptions& options) {
  std::vector<std::string> overrides = {"optim.schedule=range",
                                        "optim.min_lr=" + number_text(range.from),
                                        "optim.lr=" + number_text(range.to),
                                        "optim.warmup_steps=0",
                                        "run.stop_patience=0",
                                        "run.spike=none",
                                        "checkpoint.at_end=false"};
  if (options.steps) overrides.push_back(fmt::format("run.steps={}", *options.steps));
  return overrides;
}

std::string default_folder(const SweepOptions& options) {
  const std::string name = std::filesystem::path(options.config.files.back()).stem().string();
  return fmt::format("runs/{}-{}", name, options.lr_range.empty() ? "sweep" : "lr-range");
}

Result<std::vector<SweepPoint>> points_of(const SweepOptions& options, SweepSpec& spec) {
  for (const std::string& text : options.over) {
    TRIREME_TRY(key, parse_swept_key(text));
    for (const std::string& set : options.config.overrides) {
      if (set.starts_with(key.key + "=")) {
        return usage(
            fmt::format("--over {} and --set {} say different things about {}; leave one "
                        "of them out",
                        text, set, key.key));
      }
    }
    spec.keys.push_back(std::move(key));
  }
  if (options.random) return random_points(spec.keys, *options.random, options.seed);
  return grid_points(spec.keys);
}

// The values of a trial are given to its configuration as those of --set are, but the user has
// written another option.
Error in_words_of_sweep(Error error, const std::vector<std::string>& own,
                        const SweepOptions& options) {
  for (const std::string& assignment : own) {
    const std::string key = assignment.substr(0, assignment.find('=') + 1);
    std::string written = "--lr-range " + options.lr_range;
    for (const std::string& over : options.over) {
      if (over.starts_with(key)) written = fmt::format("--over {} ({})", over, assignment);
    }
    const std::string told = "--set " + assignment + ":";
    for (size_t at = 0; (at = error.message.find(told, at)) != std::string::npos;) {
      error.message.replace(at, told.size() - 1, written);
      at += written.size();
    }
  }
  return error;
}

// Refuses a checkpoint with which no trial can begin. A trial may only take weights from it, and
// counts its steps from there.
Status check_resume(const std::string& path, const RunPlan& plan) {
  if (path.empty()) return Done{};
  if (!names_best_checkpoint(path)) TRIREME_TRY_DONE(require_folder(path));
  TRIREME_TRY(checkpoint, find_checkpoint(path));
  TRIREME_TRY_DONE(changes_since(checkpoint, plan));
  const bool begins_adapters = plan.model.has_adapters() && !has_adapters(checkpoint);
  const int64_t step = checkpoint.info().step;
  if (begins_adapters && plan.config.run.steps <= step) {
    return usage(
        fmt::format("--resume {}: it is of step {}, and run.steps = {} counts from the first step "
                    "of its run, so no trial would train; set run.steps to {} or more",
                    path, step, plan.config.run.steps, step + 1));
  }
  if (step == 0 || begins_adapters) return Done{};
  return usage(
      fmt::format("--resume {}: it is of step {} of a run, and every trial begins with its first "
                  "step; name a checkpoint of `trireme checkpoint import --trainable`, or train "
                  "adapters with model.lora_rank",
                  path, step));
}

// Loads a trial's configuration and plans it, so that no trial is refused in the middle of a sweep.
Result<RunPlan> plan_trial(const RunConfigOptions& config, const std::string& resume,
                           const CommandIo& io, std::vector<LoadedConfig>& trials) {
  TRIREME_TRY(loaded, load_config(config, io));
  const Status possible = check_trial(loaded.config);
  if (!possible.ok()) return loaded.located(possible.error());
  const Result<RunPlan> plan = plan_run(loaded.config, this_host(), io.open_input);
  if (!plan.ok()) return loaded.located(plan.error());
  TRIREME_TRY_DONE(check_resume(resume, *plan));
  trials.push_back(std::move(loaded));
  return *plan;
}

}  // namespace

Result<SweepPlan> plan_sweep(const SweepOptions& options, const CommandIo& io) {
  TRIREME_TRY_DONE(check_options(options));
  SweepPlan plan;
  plan.folder = options.out.empty() ? default_folder(options) : options.out;
  SweepSpec& spec = plan.record.spec;
  spec.files = options.config.files;
  spec.overrides = options.config.overrides;
  spec.resume = options.resume;
  spec.random = options.random;
  spec.seed = options.seed;
  spec.grace = options.grace;
  std::vector<SweepPoint> points(1);
  if (options.lr_range.empty()) {
    TRIREME_TRY(found, points_of(options, spec));
    points = std::move(found);
  } else {
    TRIREME_TRY(range, parse_lr_range(options.lr_range));
    spec.lr_range = range;
  }
  std::set<int64_t> steps, tokens;
  for (size_t i = 0; i < points.size(); ++i) {
    RunConfigOptions config = options.config;
    const std::vector<std::string> own = spec.lr_range ? range_overrides(*spec.lr_range, options)
                                                       : overrides_of(spec.keys, points[i]);
    config.overrides.insert(config.overrides.end(), own.begin(), own.end());
    const Result<RunPlan> trial = plan_trial(config, options.resume, io, plan.trials);
    if (!trial.ok()) {
      const Error error = in_words_of_sweep(trial.error(), own, options);
      return points.size() == 1 ? error : with_context(error, trial_name(i));
    }
    steps.insert(trial->config.run.steps);
    tokens.insert(trial->tokens_per_step());
    plan.record.trials.push_back({.point = std::move(points[i])});
  }
  if (steps.size() == 1) spec.total_steps = *steps.begin();
  const bool is_comparable = steps.size() == 1 && tokens.size() == 1;
  spec.stops_early = !options.no_early_stop && !spec.lr_range && is_comparable;
  if (!is_comparable && !options.no_early_stop) {
    plan.note =
        "no trial is stopped early, because a step of one trial is not comparable with the same "
        "step of another: they differ in run.steps or in the tokens of a step";
  }
  spec.config = to_json(plan.trials.front().config);
  return plan;
}

}  // namespace trireme
