#include "cli/sweep_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <ostream>

#include "base/absolute_folder.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "base/units.h"
#include "cli/exit_code.h"
#include "cli/run_environment.h"
#include "cli/stop_signals.h"
#include "cli/sweep_plan.h"
#include "cli/sweep_table.h"
#include "cli/sweep_trial.h"
#include "sweep/sweep_page.h"

namespace trireme {

namespace fs = std::filesystem;

namespace {

constexpr const char* kSweepLock = ".lock";
constexpr int64_t kMostSweepBytes = int64_t{64} << 20;

// Reads sweep.json of a sweep that is continued; nullopt if the folder is new.
Result<std::optional<SweepRecord>> read_record(const std::string& folder) {
  const std::string path = folder + "/sweep.json";
  std::error_code error;
  if (fs::exists(folder, error) && !fs::is_directory(folder, error)) {
    return usage(fmt::format("--out {} is a file: a sweep needs a folder of its own", folder));
  }
  if (fs::exists(path, error)) {
    TRIREME_TRY(text, read_text_file(path, kMostSweepBytes));
    Result<SweepRecord> record = parse_sweep_json(text);
    if (!record.ok()) {
      return with_context(record.error(), path + " is damaged; choose another --out");
    }
    return std::optional<SweepRecord>(std::move(*record));
  }
  const bool is_used = fs::exists(folder, error) &&
                       std::any_of(fs::directory_iterator(folder, error), fs::directory_iterator(),
                                   [](const fs::directory_entry& one) {
                                     return one.path().filename() != kSweepLock;
                                   });
  if (!is_used) return std::optional<SweepRecord>();
  return usage(
      fmt::format("--out {} is not empty and holds no sweep; choose another folder", folder));
}

class Sweep {
 public:
  Sweep(SweepPlan plan, CommandIo& io)
      : plan_(std::move(plan)),
        record_(plan_.record),
        io_(io),
        progress_(io, record_.trials.size()),
        curves_(record_.trials.size()) {}

  // Continues the sweep of the folder, or begins it.
  Status open() {
    TRIREME_TRY(former, read_record(plan_.folder));
    if (!former) return Done{};
    const std::string difference = difference_of(former->spec, record_.spec);
    if (!difference.empty()) {
      return usage(
          fmt::format("--out {} holds another sweep: {}; repeat its command to continue "
                      "it, or choose another folder",
                      plan_.folder, difference));
    }
    if (former->trials.size() != record_.trials.size()) {
      return damaged(
          fmt::format("{}/sweep.json has {} trials, and the sweep has {}; choose another "
                      "--out",
                      plan_.folder, former->trials.size(), record_.trials.size()));
    }
    record_.trials = std::move(former->trials);
    record_.finding = former->finding;
    for (size_t i = 0; i < record_.trials.size(); ++i) {
      if (record_.trials[i].state == TrialState::Waiting) continue;
      TRIREME_TRY(curve, read_trial_curve(trial_folder(i)));
      curves_[i] = std::move(curve);
    }
    return Done{};
  }

  Result<int> run(const std::atomic<int>& stop_signals) {
    if (!plan_.note.empty()) io_.err << plan_.note << "\n";
    bool has_failed = false;  // the trial before
    for (size_t i = 0; i < record_.trials.size(); ++i) {
      if (is_over(record_.trials[i].state)) continue;
      if (stop_signals > 0) return interrupted();
      TRIREME_TRY_DONE(begin(i));
      Result<TrialEnd> end = run_trial({.config = plan_.trials[i],
                                        .folder = trial_folder(i),
                                        .resume = record_.spec.resume,
                                        .rules = rules_of(i),
                                        .stop_signals = stop_signals,
                                        .progress = progress_},
                                       io_);
      if (!end.ok()) {
        TRIREME_TRY_DONE(note_failure(i, end.error()));
        // Two failures in a row have a cause outside the trials, such as a full disk.
        if (has_failed) return end.error();
        has_failed = true;
        continue;
      }
      has_failed = false;
      curves_[i] = std::move(end->curve);
      if (end->is_interrupted) return interrupted();
      TRIREME_TRY_DONE(conclude(i, end->verdict));
    }
    return stop_signals > 0 && !record_.is_done() ? interrupted() : finish();
  }

  const SweepRecord& record() const { return record_; }

 private:
  static bool is_over(TrialState state) {
    return state == TrialState::Finished || state == TrialState::Stopped ||
           state == TrialState::Diverged;
  }

  std::string trial_folder(size_t index) const { return plan_.folder + "/" + trial_name(index); }

  TrialRules rules_of(size_t index) const {
    const SweepSpec& spec = record_.spec;
    TrialRules rules{.total_steps = plan_.trials[index].config.run.steps,
                     .is_range_test = spec.lr_range.has_value()};
    if (!spec.stops_early) return rules;
    rules.rule.emplace(spec.total_steps, spec.grace);
    for (size_t i = 0; i < index; ++i) rules.former.push_back(record_.trials[i].rungs);
    return rules;
  }

  Status begin(size_t index) {
    SweepProgress::Later later;
    for (size_t i = index + 1; i < record_.trials.size(); ++i) {
      if (is_over(record_.trials[i].state)) continue;
      ++later.trials;
      later.steps += plan_.trials[i].config.run.steps;
    }
    progress_.begin_trial(trial_name(index), index + 1, later);
    record_.trials[index].state = TrialState::Running;
    record_.trials[index].reason.clear();
    return save();
  }

  Status conclude(size_t index, const std::optional<TrialVerdict>& verdict) {
    conclude_trial(curves_[index], rules_of(index), verdict, record_.trials[index]);
    if (record_.spec.lr_range) {
      record_.finding = find_lr(curves_[index], record_.spec.total_steps);
    }
    tell_end(index);
    TRIREME_TRY_DONE(save());
    return write_page();
  }

  Status note_failure(size_t index, const Error& error) {
    record_.trials[index].state = TrialState::Failed;
    record_.trials[index].reason = error.message;
    tell_end(index);
    return save();
  }

  void tell_end(size_t index) {
    const SweepTrial& trial = record_.trials[index];
    const std::optional<size_t> best = record_.best();
    if (best && !record_.spec.lr_range) {
      const SweepTrial& leader = record_.trials[*best];
      progress_.show_best(fmt::format(
          "best {} ({})", format_fixed(leader.val_loss.value_or(leader.loss.value_or(0.0)), 4),
          trial_name(*best)));
    }
    progress_.say(fmt::format("{}: {}", trial_text(record_.spec, trial, index), end_text(trial)));
  }

  Status save() const {
    const std::string path = plan_.folder + "/sweep.json";
    TRIREME_TRY_DONE(make_folders_of(path));
    return write_file_atomically(path, sweep_json(record_));
  }

  Status write_page() const {
    return write_file_atomically(plan_.folder + "/sweep.html",
                                 sweep_page(record_, curves_,
                                            {.folder = absolute_folder(plan_.folder),
                                             .program = program_path(),
                                             .started_in = current_folder()}));
  }

  int interrupted() {
    progress_.finish();
    io_.err << "stopped and saved; the same command continues the sweep\n";
    return kStoppedExitCode;
  }

  Result<int> finish() {
    progress_.finish();
    TRIREME_TRY_DONE(write_page());
    const auto failed =
        std::count_if(record_.trials.begin(), record_.trials.end(),
                      [](const SweepTrial& trial) { return trial.state == TrialState::Failed; });
    if (failed > 0) {
      print_error(fmt::format("trireme sweep: {} of {} trials have failed; the same command tries "
                              "them again",
                              failed, record_.trials.size()),
                  io_);
    } else if (!record_.best()) {
      print_error(
          "trireme sweep: no trial has finished: every one has diverged or was stopped; "
          "sweep other values, such as lower learning rates",
          io_);
    }
    io_.err << fmt::format("page: {}/sweep.html\n", plan_.folder);
    return failed > 0 || !record_.best() ? kFailedExitCode : 0;
  }

  SweepPlan plan_;
  SweepRecord record_;
  CommandIo& io_;
  SweepProgress progress_;
  std::vector<TrialCurve> curves_;  // one for each trial
};

}  // namespace

Result<int> run_sweep(const SweepOptions& options, CommandIo& io) {
  if (io.launch.error) return *io.launch.error;
  if (io.launch.ranks > 0) {
    return usage(
        "the ranks of a sweep are threads of one process: start trireme sweep without mpirun, srun "
        "and trireme launch");
  }
  TRIREME_TRY(plan, plan_sweep(options, io));
  if (auto known = read_record(plan.folder); !known.ok()) return known.error();  // makes no folder
  const std::string folder = plan.folder;
  TRIREME_TRY_DONE(make_folders_of(folder + "/" + kSweepLock));
  Result<FileLock> lock = FileLock::take(folder + "/" + kSweepLock);
  if (!lock.ok()) {
    return with_context(lock.error(), fmt::format("--out {} is in use by another sweep", folder));
  }
  Sweep sweep(std::move(plan), io);
  TRIREME_TRY_DONE(sweep.open());
  TRIREME_TRY(code, sweep.run(catch_stop_signals(SignalWords::OfSweep)));
  if (code != kStoppedExitCode) {
    io.out << (options.json ? sweep_json(sweep.record()) : sweep_text(sweep.record()));
  }
  return code;
}

}  // namespace trireme
