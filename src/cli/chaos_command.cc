#include "cli/chaos_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>
#include <string_view>
#include <thread>

#include "agent/epoch_layout.h"
#include "agent/taken_signals.h"
#include "base/absolute_folder.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json_number.h"
#include "base/json_text.h"
#include "chaos/machine_needs.h"
#include "chaos/storm.h"
#include "checkpoint/checkpoint_index.h"
#include "cli/chaos_report.h"
#include "cli/exit_code.h"
#include "cli/train_command.h"
#include "compile/run_plan.h"
#include "goodput/measured_share.h"
#include "store/store_path.h"

namespace trireme {

namespace fs = std::filesystem;

namespace {

constexpr double kLeastMtbfS = 0.05;
constexpr double kMostMtbfS = 1e6;
constexpr int kHosts = 3;  // of which one has no ranks at first
constexpr int64_t kDiskSlack = int64_t{1} << 20;
constexpr std::chrono::milliseconds kPause(5);

Status check_options(const ChaosOptions& options) {
  if (is_store_url(options.out)) {
    return usage("--out " + options.out + ": both runs are compared on this host; name a folder");
  }
  if (!(options.mtbf_s >= kLeastMtbfS && options.mtbf_s <= kMostMtbfS)) {
    return usage(fmt::format("--mtbf {}: expected {} to {:g} seconds between two faults",
                             options.mtbf_s, kLeastMtbfS, kMostMtbfS));
  }
  if (options.steps && options.duration_s) {
    return usage("--steps and --duration both say how long the job runs; give one of them");
  }
  if (options.steps && *options.steps < 1) {
    return usage(fmt::format("--steps {}: expected 1 or more", *options.steps));
  }
  if (options.most_faults && *options.most_faults < 1) {
    return usage(fmt::format("--most-faults {}: expected 1 or more", *options.most_faults));
  }
  if (options.duration_s && !(*options.duration_s > 0.0)) {
    return usage(fmt::format("--duration {}: expected seconds above 0", *options.duration_s));
  }
  return Done{};
}

// The words of a job with its run folder.
std::vector<std::string> launch_words(const ChaosOptions& options, const std::string& run_dir,
                                      const std::vector<std::string>& more) {
  std::vector<std::string> words = {"launch", "--out", run_dir, "--max-restarts", "1000000"};
  for (const std::string& key : options.config.overrides) words.insert(words.end(), {"--set", key});
  if (options.steps) {
    words.insert(words.end(), {"--set", fmt::format("run.steps={}", *options.steps)});
  }
  // The comparison reads metrics.jsonl alone, so it must not be written in parts.
  words.insert(words.end(), {"--set", "run.metrics_bytes=0", "--set", "checkpoint.at_end=true"});
  if (options.config.ranks) {
    words.insert(words.end(), {"--ranks", std::to_string(*options.config.ranks)});
  }
  words.insert(words.end(), more.begin(), more.end());
  words.emplace_back("--");
  words.insert(words.end(), options.config.files.begin(), options.config.files.end());
  return words;
}

int64_t bytes_below(const std::string& folder) {
  int64_t bytes = 0;
  std::error_code error;
  fs::recursive_directory_iterator it(folder, error);
  for (const fs::recursive_directory_iterator end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->is_regular_file(ignored)) bytes += int64_t(it->file_size(ignored));
  }
  return bytes;
}

std::string last_lines(const std::string& path) {
  constexpr size_t kShown = 1000;
  const Result<std::string> text = read_text_file(path);
  if (!text.ok() || text->size() <= kShown) return text.ok() ? *text : "";
  return "..." + text->substr(text->size() - kShown);
}

// Returns the errors that a command has printed, or its last lines if there are none. Ranks that
// fail for the same reason print it once each.
std::string errors_in(const std::string& log) {
  constexpr std::string_view kBegin = "error: ";
  const Result<std::string> text = read_text_file(log);
  std::istringstream lines(text.ok() ? *text : "");
  std::string errors, last;
  for (std::string line; std::getline(lines, line); last = line) {
    if (line.starts_with(kBegin) && line != last) errors += "\n" + line.substr(kBegin.size());
  }
  if (errors.empty()) errors = "\n" + last_lines(log);
  return errors.substr(0, errors.find_last_not_of('\n') + 1);
}

// The undisturbed run.
struct Oracle {
  int exit_code = 0;
  RunLog log;
  nlohmann::json summary;
  int64_t last_step() const { return log.steps.empty() ? 0 : log.steps.back().step; }
};

nlohmann::json summary_of(const std::string& run_dir) {
  const Result<std::string> text = read_text_file(run_dir + "/summary.json");
  if (!text.ok()) return nlohmann::json::object();
  auto json = parse_json_or_discard(*text);
  return json.is_object() ? json : nlohmann::json::object();
}

class Chaos {
 public:
  Chaos(const ChaosOptions& options, RunConfig config, FaultPlan plan, std::string folder,
        CommandIo& io)
      : options_(options), config_(std::move(config)), folder_(std::move(folder)), io_(io) {
    report_.plan = std::move(plan);
    report_.folder = folder_;
  }

  Result<int> run() {
    const TakenSignals signals;
    TRIREME_TRY_DONE(run_oracle(signals));
    if (is_interrupted_) return kStoppedExitCode;
    TRIREME_TRY_DONE(run_disturbed(signals));
    if (is_interrupted_) return kStoppedExitCode;
    io_.out << (options_.json ? chaos_json(report_) : chaos_text(report_));
    const size_t num_points = report_.plan.points.size(), num_visited = report_.faults.size();
    if (has_only_points() && !options_.most_faults && num_visited < num_points) {
      io_.err << fmt::format(
          "warning: the job has ended before ranks could die at {} of {} points; make it longer "
          "with --steps or --duration\n",
          num_points - num_visited, num_points);
    }
    if (!report_.is_good()) {
      io_.err << last_lines(folder_ + "/storm.log");
      print_error(fmt::format("the job has not survived all faults with the same numbers; {}/"
                              "storm.log has all that it said",
                              folder_),
                  io_);
    }
    return report_.is_good() ? 0 : kFailedExitCode;
  }

 private:
  bool has(FaultKind kind) const {
    return std::find(report_.plan.kinds.begin(), report_.plan.kinds.end(), kind) !=
           report_.plan.kinds.end();
  }

  bool has_only_points() const { return report_.plan.kinds == std::vector{FaultKind::Point}; }

  // Points alone are visited once each.
  int64_t most_faults() const {
    return has_only_points() ? int64_t(report_.plan.points.size()) : INT64_MAX;
  }

  Status run_oracle(const TakenSignals& signals) {
    const std::string run_dir = folder_ + "/oracle", log = folder_ + "/oracle.log";
    io_.err << "running undisturbed: " << log << "\n";
    TRIREME_TRY(child, ChildJob::start(launch_words(options_, run_dir, {}), log, signals.before()));
    wait_for(child, run_dir, signals);
    if (is_interrupted_) return Done{};
    oracle_.exit_code = child.exit_code();
    if (oracle_.exit_code != 0 && oracle_.exit_code != kStoppedExitCode) {
      return Error{kind_of_exit(oracle_.exit_code),
                   fmt::format("the undisturbed run has failed with exit code {} ({}):{}",
                               oracle_.exit_code, log, errors_in(log))};
    }
    TRIREME_TRY(read, read_run_log(run_dir + "/metrics.jsonl"));
    oracle_.log = std::move(read);
    oracle_.summary = summary_of(run_dir);
    return Done{};
  }

  // Waits for the undisturbed run, and asks it to end after --duration.
  void wait_for(ChildJob& child, const std::string& run_dir, const TakenSignals& signals) {
    int64_t begin_ns = 0;
    bool was_asked = false;
    while (!child.has_ended()) {
      for (int signal = signals.next(); signal != 0; signal = signals.next()) {
        if (signal == SIGCHLD) continue;
        child.send(is_interrupted_ ? SIGKILL : SIGTERM);
        is_interrupted_ = true;
      }
      if (begin_ns == 0 && last_step_in(run_dir + "/metrics.jsonl") > 0) begin_ns = monotonic_ns();
      const double seconds = begin_ns == 0 ? 0.0 : double(monotonic_ns() - begin_ns) * 1e-9;
      if (options_.duration_s && !was_asked && seconds > *options_.duration_s) {
        child.send(SIGTERM);
        was_asked = true;
      }
      std::this_thread::sleep_for(kPause);
    }
  }

  Status run_disturbed(const TakenSignals& signals) {
    std::optional<SmallDisk> disk;
    std::optional<CutHosts> hosts;
    std::vector<std::string> more;
    const std::string run_dir = folder_ + "/storm";
    if (options_.duration_s) {
      more = {"--set", fmt::format("run.stop_after={}", oracle_.last_step())};
    }
    if (has(FaultKind::Disk)) {
      const int64_t bytes = 3 * bytes_below(folder_ + "/oracle/checkpoints") + kDiskSlack;
      TRIREME_TRY(made, SmallDisk::make(run_dir + "/checkpoints", bytes));
      disk.emplace(std::move(made));
      more.insert(more.end(), {"--resume", "auto"});  // the folder exists
    }
    if (has(FaultKind::Partition)) {
      TRIREME_TRY(made, CutHosts::make(kHosts, folder_ + "/enter_host"));
      hosts.emplace(std::move(made));
      add_hosts(*hosts, more);
    }
    StormJob job{.launch = launch_words(options_, run_dir, more),
                 .run_dir = run_dir,
                 .log = folder_ + "/storm.log",
                 .last_step = oracle_.last_step(),
                 .save_every = std::max<int64_t>(1, config_.checkpoint.every),
                 .step_s = step_s(),
                 .comm_timeout_s = config_.run.comm_timeout_s,
                 .most_faults = options_.most_faults.value_or(most_faults())};
    io_.err << "running under faults: " << job.log << "\n";
    TRIREME_TRY(end, run_storm(job, report_.plan,
                               {disk ? &*disk : nullptr, hosts ? &*hosts : nullptr}, signals));
    is_interrupted_ = end.is_interrupted;
    return is_interrupted_ ? Status(Done{}) : conclude(run_dir, std::move(end));
  }

  // Half of the ranks run on each of two hosts, and one host stands by.
  void add_hosts(const CutHosts& hosts, std::vector<std::string>& words) const {
    const int slots = (epoch_layout_of(config_).num_ranks() + 1) / 2;
    std::string list;
    for (const std::string& name : hosts.names()) {
      list += fmt::format("{}{}:{}", list.empty() ? "" : ",", name, slots);
    }
    words.insert(words.end(), {"--hosts", list, "--spares", "1", "--ssh", folder_ + "/enter_host",
                               "--listen", hosts.gateway()});
  }

  double step_s() const { return oracle_.summary.value("step_s", 0.1); }

  Status conclude(const std::string& run_dir, StormEnd end) {
    TRIREME_TRY(log, read_run_log(run_dir + "/metrics.jsonl"));
    const nlohmann::json summary = summary_of(run_dir);
    report_.exit_code = end.exit_code;
    report_.has_ended_well = end.exit_code == oracle_.exit_code;
    report_.faults = std::move(end.faults);
    tell_recoveries(log, report_.has_ended_well, report_.faults);
    report_.steps = oracle_.last_step();
    report_.step_s = step_s();
    report_.failures = log.failures;
    report_.redone_steps = whole_number_or(summary, "redone_steps", int64_t{0});
    if (report_.has_ended_well && summary.contains("goodput")) {
      const nlohmann::json& goodput = summary["goodput"];
      report_.effective = goodput.value("effective", 0.0);
      report_.predicted = predicted(log, summary, goodput.value("all_s", 1.0));
    }
    compare_steps(oracle_.log, log, report_.compared);
    const std::string last = "/checkpoints/" + step_folder_name(report_.steps);
    report_.compared.weights = compare_checkpoints(folder_ + "/oracle" + last, run_dir + last);
    return Done{};
  }

  // For failures that come as often as they have come. Steps and saves are those of the disturbed
  // run itself, because other programs may have used more of the machine than during the other run.
  double predicted(const RunLog& storm, const nlohmann::json& summary, double all_s) const {
    const double step = mean_step_s(storm).value_or(step_s());
    MeasuredJob job{.step_s = step};
    const int64_t every = config_.checkpoint.every > 0 ? config_.checkpoint.every : report_.steps;
    job.disk.interval_s = double(every) * step;
    const std::vector<RunLog::Save>& saves = storm.saves.empty() ? oracle_.log.saves : storm.saves;
    for (const RunLog::Save& save : saves) {
      job.disk.save_s += save.stall_s.value_or(save.seconds) / double(saves.size());
      if (save.stall_s) job.disk.delay_s += save.seconds / double(saves.size());
    }
    // The last epoch of the disturbed run counts its checkpoints in memory.
    const int64_t in_last_epoch = whole_number_or(summary, "memory_saves", int64_t{0});
    const nlohmann::json& counts = in_last_epoch > 0 ? summary : oracle_.summary;
    const int64_t in_memory = whole_number_or(counts, "memory_saves", int64_t{0});
    if (in_memory > 0) {
      job.memory = SavePolicy{.interval_s = double(config_.checkpoint.memory_every) * step,
                              .save_s = counts.value("memory_stall_s", 0.0) / double(in_memory),
                              .delay_s = step};
    }
    for (const RunLog::Restart& restart : storm.restarts) {
      job.recoveries.push_back(
          {.detect_s = restart.detect_s,
           .first_step_s = restart.first_step_s,
           .is_from_memory = restart.from == "memory" || restart.from == "parity"});
    }
    return predicted_share(job, double(storm.restarts.size()) / all_s);
  }

  const ChaosOptions& options_;
  RunConfig config_;
  std::string folder_;
  CommandIo& io_;
  Oracle oracle_;
  ChaosReport report_;
  bool is_interrupted_ = false;
};

JobFacts facts_of(const RunConfig& config) {
  return {.saves_to_disk = config.checkpoint.every != 0,
          .saves_to_memory = wants_memory_checkpoints(config),
          .kept = config.checkpoint.keep,
          .may_move = config.run.reproducible != Reproducible::Fixed,
          .num_ranks = epoch_layout_of(config).num_ranks()};
}

Result<std::vector<CrashPoint>> wanted_points(const ChaosOptions& options, const FaultPlan& plan,
                                              const JobFacts& facts) {
  const bool is_used =
      std::find(plan.kinds.begin(), plan.kinds.end(), FaultKind::Point) != plan.kinds.end();
  if (options.points.empty()) return is_used ? crash_points_of(facts) : std::vector<CrashPoint>();
  if (!is_used) return usage("--points names where ranks die; add it: --faults point");
  TRIREME_TRY(points, crash_points_in(options.points));
  TRIREME_TRY_DONE(check_points(points, facts));
  return points;
}

// A folder of its own for the two runs.
Result<std::string> make_folder(const ChaosOptions& options) {
  const std::string out =
      options.out.empty() ? run_folder_of(options.config, "") + "-chaos" : options.out;
  std::error_code error;
  if (fs::exists(out, error) && !fs::is_empty(out, error)) {
    return usage(fmt::format("--out {} is not empty: choose another folder", out));
  }
  fs::create_directories(out, error);
  if (error) return damaged(fmt::format("--out {}: {}", out, error.message()));
  return absolute_folder(out);
}

}  // namespace

Result<int> run_chaos(const ChaosOptions& options, CommandIo& io) {
  TRIREME_TRY_DONE(check_options(options));
  TRIREME_TRY(kinds, fault_kinds_in(options.faults));
  RunConfigOptions wanted = options.config;
  wanted.overrides.emplace_back("run.backend=\"tcp\"");
  TRIREME_TRY(loaded, load_config(wanted, io));
  if (!loaded.config.checkpoint.store.empty()) {
    return usage(
        fmt::format("checkpoint.store = \"{}\" names the copy of one run, and the "
                    "undisturbed and the disturbed run would share it; leave it out",
                    loaded.config.checkpoint.store));
  }
  const JobFacts facts = facts_of(loaded.config);
  TRIREME_TRY_DONE(check_faults(kinds, facts));
  FaultPlan plan{.kinds = std::move(kinds), .mtbf_s = options.mtbf_s, .seed = options.seed};
  TRIREME_TRY(points, wanted_points(options, plan, facts));
  plan.points = std::move(points);
  TRIREME_TRY(folder, make_folder(options));
  return Chaos(options, loaded.config, std::move(plan), folder, io).run();
}

}  // namespace trireme
