#include "cli/train_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <ostream>

#include "api/this_machine.h"
#include "base/units.h"
#include "cli/exit_code.h"
#include "cli/plan_command.h"
#include "cli/train_progress.h"
#include "cli/version.h"
#include "config/cluster_file.h"
#include "device/host.h"
#include "observe/report.h"
#include "observe/summary.h"
#include "predict/predict.h"
#include "session/session.h"

namespace trireme {
namespace {

// Number of signals that asked the run to stop. It is global, because a signal handler can reach
// nothing else.
std::atomic<int> stop_signals{0};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

// The first signal lets the step finish and saves; the second ends the process at once.
void handle_stop_signal(int) {
  if (stop_signals.fetch_add(1) > 0) ::_exit(kStoppedExitCode);
}

void install_stop_handlers() {
  struct sigaction action {};
  action.sa_handler = handle_stop_signal;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGUSR1, &action, nullptr);  // launchers forward it, and do not kill the job after it
}

// Ends a process whose ranks hang. It cannot wait for any of its threads.
void end_process(const Error& error, CommandIo& io) {
  print_error(in_command(error, "trireme train").message, io);
  io.err.flush();
  ::_exit(exit_code(error.kind));
}

SessionOptions session_options(const TrainOptions& options, const RunConfig& config, CommandIo& io,
                               TrainProgress& progress) {
  const Launch& launch = io.launch;
  SessionOptions session{.config = config,
                         .out_dir = run_folder_of(options.config, options.out),
                         .host = this_host(),
                         .environment = {{"host", host_name()},
                                         {"cpu", cpu_model()},
                                         {"version", std::string(version())},
                                         {"commit", std::string(build_commit())}},
                         .stop_signals = stop_signals,
                         .observers = {&progress}};
  session.host.ranks_on_host = launch.ranks_on_host;
  session.is_first_process = launch.is_first();
  session.place = launch.place;
  session.memory_folder = launch.memory_folder;
  if (options.resume == "auto") {
    session.resume = ResumeMode::Auto;
  } else if (!options.resume.empty()) {
    session.resume = ResumeMode::Path;
    session.resume_path = options.resume;
  }
  session.on_hang = [&io](const Error& error) { end_process(error, io); };
  const bool is_first_epoch = !launch.place || launch.place->epoch == 1;
  session.on_ready = [&progress, is_first_epoch](const RunPlan& plan,
                                                 const TrainPosition& position) {
    progress.begin(plan, position, is_first_epoch);
  };
  return session;
}

// With less of its time lost to other processes a run counts as undisturbed.
constexpr double kUndisturbed = 0.97;

// Compares the predicted step time with the measured one. Where other processes took some of the
// cores, it is compared with the part of the time that was left.
std::string prediction_line(const SessionResult& result) {
  if (result.step_s <= 0.0 || result.predicted_step_s <= 0.0) return "";
  const double ratio = result.predicted_step_s / (result.step_s * result.share_left);
  const std::string off = ratio < 0.5 ? fmt::format("{:.1f} times slower", 1.0 / ratio)
                                      : fmt::format("{:+.1f} % off", 100.0 * (ratio - 1.0));
  const std::string load =
      result.share_left > kUndisturbed
          ? ""
          : fmt::format("; others took {:.0f} % of the cores, so {:.0f} % of this time is compared",
                        100.0 * result.taken_by_others, 100.0 * result.share_left);
  return fmt::format("step       {} predicted, {} measured{}: {}\n",
                     format_seconds(result.predicted_step_s), format_seconds(result.step_s), load,
                     off);
}

// Under a launcher every process is a rank, whatever the configuration says. Only the order of a
// later epoch says how many ranks and which layout that epoch has.
RunConfigOptions with_launched_ranks(RunConfigOptions config, const Launch& launch) {
  const bool is_later = launch.place && launch.place->epoch > 1;
  if (launch.ranks == 0 || config.ranks || is_later) return config;
  config.ranks = launch.ranks;
  config.ranks_option = launch.place ? "trireme launch --ranks" : "mpirun -n";
  return config;
}

}  // namespace

std::string run_folder_of(const RunConfigOptions& config, const std::string& out) {
  if (!out.empty()) return out;
  return "runs/" + std::filesystem::path(config.files.back()).stem().string();
}

Result<int> run_train(const TrainOptions& options, CommandIo& io) {
  if (io.launch.error) return *io.launch.error;
  TRIREME_TRY(loaded, load_config(with_launched_ranks(options.config, io.launch), io));
  if (io.launch.ranks > 0) {
    loaded.config.run.backend = io.launch.place ? BackendChoice::Tcp : BackendChoice::Mpi;
  }
  if (options.dry_run) {
    const Result<RunPlan> planned = plan_session(loaded.config, this_host());
    if (!planned.ok()) return loaded.located(planned.error());
    const RunPlan& plan = *planned;
    io.err << warning_lines(plan);
    io.out << (options.json ? plan_json(plan, predict_ranks(plan, {}), {}) : describe_plan(plan));
    return 0;
  }
  if (loaded.config.checkpoint.memory_every > 0 && io.launch.memory_folder.empty() &&
      io.launch.is_first()) {
    io.err << "warning: checkpoint.memory_every has no effect: only trireme launch keeps "
              "checkpoints in memory\n";
  }
  install_stop_handlers();
  TrainProgress progress(io);
  SessionOptions session = session_options(options, loaded.config, io, progress);
  if (!loaded.config.run.hardware.empty()) {
    TRIREME_TRY(hardware, load_hardware(loaded.config.run.hardware));
    session.hardware = hardware;
  }
  std::optional<RankLink> link;
  if (io.launch.link && io.launch.place) {
    TRIREME_TRY(opened, RankLink::open(*io.launch.link));
    session.link = &link.emplace(std::move(opened));
    const std::optional<EpochOrder> order = link->receive_order(io.launch.place->epoch);
    if (!order) return Error{ErrorKind::Runtime, "the agent has ended this rank"};
    if (order->is_first == 0) take_order(*order, session);
  }
  const Result<SessionResult> ended = run_session(session);
  if (!ended.ok()) {
    const Error error = loaded.located(ended.error());
    if (link) link->tell_failed(session.place->epoch, error.message);
    return error;
  }
  const SessionResult& result = *ended;
  if (!result.is_first) return result.end == TrainEnd::Finished ? 0 : kStoppedExitCode;
  progress.end();
  const std::string report = result.report_folder + "/report.html";
  const Status written =
      result.report_folder.empty()
          ? Status(damaged(session.out_dir + " was moved or removed during the run, and the "
                                             "metrics of this run are lost with it"))
          : write_report(result.report_folder, report);
  if (!written.ok()) {
    io.err << fmt::format("warning: there is no report: {}\n", written.error().message);
  }
  io.err << prediction_line(result);
  io.err << fmt::format("{} after step {}{}\n",
                        result.end == TrainEnd::Finished ? "finished" : "stopped and saved",
                        result.position.step, written.ok() ? ": " + report : "");
  return result.end == TrainEnd::Finished ? 0 : kStoppedExitCode;
}

}  // namespace trireme
