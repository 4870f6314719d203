#include "cli/train_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <ostream>

#include "agent/mpirun_link.h"
#include "agent/rank_exit_code.h"
#include "api/this_machine.h"
#include "base/file.h"
#include "cli/exit_code.h"
#include "cli/plan_text.h"
#include "cli/prediction_line.h"
#include "cli/run_environment.h"
#include "cli/stop_signals.h"
#include "cli/stored_run.h"
#include "cli/train_progress.h"
#include "config/cluster_file.h"
#include "observe/report.h"
#include "observe/summary.h"
#include "predict/predict.h"
#include "session/preflight.h"
#include "session/session.h"

namespace trireme {
namespace {

// Ends a process whose ranks hang. It cannot wait for any of its threads.
void end_process(const Error& error, CommandIo& io) {
  print_error(in_command(error, io.launch.command_of_user("trireme train")).message, io);
  io.err.flush();
  ::_exit(exit_code(error.kind));
}

SessionOptions session_options(const TrainOptions& options, const RunConfig& config, CommandIo& io,
                               TrainProgress& progress, const std::atomic<int>& stop_signals) {
  const Launch& launch = io.launch;
  SessionOptions session{.config = config,
                         .out_dir = run_folder_of(options.config, options.out),
                         .host = this_host(),
                         .environment = run_environment(),
                         .stop_signals = stop_signals,
                         .observers = {&progress},
                         .open_input = io.open_input};
  session.host.ranks_on_host = launch.ranks_on_host;
  session.is_first_process = launch.is_first();
  session.place = launch.place;
  session.memory_folder = launch.memory_folder;
  session.failure_domain = launch.failure_domain;
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

bool is_of_tcp(const Launch& launch) { return launch.place && launch.agent.empty(); }

// The connection of this rank to its agent.
struct AgentLink {
  RankLink link;
  std::unique_ptr<AgentWatch> watch;  // of an agent that has started mpirun
};

// Returns nullopt if no agent has started this rank.
Result<std::optional<AgentLink>> link_to_agent(const Launch& launch) {
  if (!launch.place || (!launch.link && launch.agent.empty())) return std::optional<AgentLink>();
  LinkDescriptors descriptors;
  if (launch.link) descriptors = *launch.link;
  std::unique_ptr<AgentWatch> watch;
  if (!launch.agent.empty()) {
    TRIREME_TRY(joined, join_mpirun_agent(launch.agent, {.epoch = launch.place->epoch,
                                                         .rank = launch.rank,
                                                         .size = launch.ranks}));
    descriptors = joined;
    watch = std::make_unique<AgentWatch>(descriptors.socket);
  }
  TRIREME_TRY(link, RankLink::open(descriptors));
  return std::optional<AgentLink>({std::move(link), std::move(watch)});
}

// Under a launcher every process is a rank, whatever the configuration says. Only the order of a
// later epoch says how many ranks and which layout that epoch has.
RunConfigOptions with_launched_ranks(RunConfigOptions config, const Launch& launch) {
  const bool is_later = launch.place && launch.place->epoch > 1;
  if (launch.ranks == 0 || config.ranks || is_later) return config;
  config.ranks = launch.ranks;
  config.ranks_option = is_of_tcp(launch) ? "trireme launch --ranks" : "mpirun -n";
  return config;
}

// The first rank prints the report. Under a launcher it writes the report into files instead.
Result<int> run_check(const TrainOptions& options, const SessionOptions& session, CommandIo& io) {
  TRIREME_TRY(report, run_preflight(session));
  if (!session.is_first_process) return 0;
  if (session.link != nullptr) {
    TRIREME_TRY_DONE(
        write_file_atomically(session.out_dir + "/" + kPreflightText, preflight_text(report)));
    TRIREME_TRY_DONE(
        write_file_atomically(session.out_dir + "/" + kPreflightJson, preflight_json(report)));
    return 0;
  }
  io.out << (options.json ? preflight_json(report) : preflight_text(report));
  return odd_ones(report).empty() ? 0 : kFailedExitCode;
}

}  // namespace

std::string run_folder_of(const RunConfigOptions& config, const std::string& out) {
  if (!out.empty()) return out;
  return "runs/" + std::filesystem::path(config.files.back()).stem().string();
}

namespace {

Result<int> run_dry(const TrainOptions& options, const LoadedConfig& loaded, CommandIo& io) {
  const Result<RunPlan> planned = plan_run(loaded.config, this_host(), io.open_input);
  if (!planned.ok()) return loaded.located(planned.error());
  const RunPlan& plan = *planned;
  io.err << warning_lines(plan);
  io.out << (options.json ? plan_json(plan, predict_ranks(plan, {}), {})
                          : describe_plan(plan, io.open_input));
  return 0;
}

// Returns null if the run has no copy in a store.
Result<std::unique_ptr<StoredRun>> copy_of_run(const TrainOptions& options,
                                               const CheckpointConfig& checkpoint, CommandIo& io) {
  if (checkpoint.store.empty() || options.check) return std::unique_ptr<StoredRun>();
  const std::string folder = run_folder_of(options.config, options.out);
  // By another process: the first rank, or `trireme launch`, whose ranks may start again later.
  const bool is_prepared = io.launch.place || !io.launch.is_first();
  if (!is_prepared) {
    TRIREME_TRY_DONE(prepare_stored_run(checkpoint.store, folder, options.resume, io));
  }
  return stored_run(checkpoint.store, folder, io);
}

// Returns the line that says how many steps a loss repeats; "" if no checkpoint in memory was
// skipped.
std::string memory_line(const SaveCounts& saves) {
  if (saves.memory_skipped == 0) return "";
  return fmt::format(
      "memory     checkpoints in memory are up to {} steps apart, because {} {} skipped; if a rank "
      "or host had been lost, at most {} {} have been repeated\n",
      saves.memory_most_apart, saves.memory_skipped, saves.memory_skipped == 1 ? "was" : "were",
      saves.memory_most_redone, saves.memory_most_redone == 1 ? "step would" : "steps would");
}

// Writes the report, and says how the run has ended.
void conclude(const SessionResult& result, const SessionOptions& session, StoredRun* stored,
              CommandIo& io) {
  const std::string report = result.report_folder + "/report.html";
  const Status written =
      result.report_folder.empty()
          ? Status(damaged(session.out_dir + " was moved or removed during the run, and the "
                                             "metrics of this run are lost with it"))
          : write_report(result.report_folder, report);
  if (!written.ok()) {
    io.err << fmt::format("warning: there is no report: {}\n", written.error().message);
  }
  io.err << prediction_line({.predicted_s = result.predicted_step_s,
                             .measured_s = result.step_s,
                             .taken_by_others = result.taken_by_others,
                             .share_left = result.share_left});
  io.err << memory_line(result.saves);
  if (stored != nullptr) {
    const Status copied = stored->finish();
    const std::string& url = session.config.checkpoint.store;
    io.err << (copied.ok() ? fmt::format("copy       {}\n", url)
                           : fmt::format("warning: {} lacks what the run has written last: {}\n",
                                         url, copied.error().message));
  }
  io.err << fmt::format("{} after step {}{}\n",
                        result.end == TrainEnd::Finished  ? "finished"
                        : result.end == TrainEnd::Settled ? "ended early by run.stop_patience"
                                                          : "stopped and saved",
                        result.position.step, written.ok() ? ": " + report : "");
}

Result<int> train(const TrainOptions& options, const LoadedConfig& loaded, CommandIo& io) {
  TRIREME_TRY(stored, copy_of_run(options, loaded.config.checkpoint, io));
  const std::atomic<int>& stop_signals =
      catch_stop_signals(!io.launch.is_first() ? SignalWords::None
                         : io.launch.place     ? SignalWords::OfLaunch
                                               : SignalWords::OfTrain);
  TrainProgress progress(io);
  SessionOptions session = session_options(options, loaded.config, io, progress, stop_signals);
  if (stored != nullptr) session.observers.push_back(stored.get());
  if (!loaded.config.run.hardware.empty()) {
    TRIREME_TRY(hardware, load_hardware(loaded.config.run.hardware));
    session.hardware = hardware;
  }
  TRIREME_TRY(agent, link_to_agent(io.launch));
  if (agent) {
    session.link = &agent->link;
    const std::optional<EpochOrder> order = agent->link.receive_order(io.launch.place->epoch);
    if (!order) return Error{ErrorKind::Runtime, "the agent has ended this rank"};
    if (order->is_first == 0) take_order(*order, session);
  }
  if (options.check) {
    Result<int> checked = run_check(options, session, io);
    if (!checked.ok() && agent) {
      agent->link.tell_failed(session.place->epoch, checked.error().message);
    }
    return checked;
  }
  const Result<SessionResult> ended = run_session(session);
  if (!ended.ok()) {
    const Error error = loaded.located(ended.error());
    if (agent) agent->link.tell_failed(session.place->epoch, error.message);
    return error;
  }
  // mpirun ends all other ranks once one has ended with an exit code other than 0, and rank 0 still
  // has its reports to write.
  const bool is_over = ended->end == TrainEnd::Finished || ended->end == TrainEnd::Settled;
  const bool is_done = is_over || !io.launch.agent.empty();
  if (!ended->is_first) return is_done ? 0 : kStoppedExitCode;
  progress.end();
  conclude(*ended, session, stored.get(), io);
  return is_over ? 0 : kStoppedExitCode;
}

}  // namespace

Result<int> run_train(const TrainOptions& given, CommandIo& io) {
  if (io.launch.error) return *io.launch.error;
  TrainOptions options = given;
  TRIREME_TRY_DONE(take_stored_out(options.config, options.out));
  TRIREME_TRY(loaded, load_config(with_launched_ranks(options.config, io.launch), io));
  if (io.launch.ranks > 0) {
    loaded.config.run.backend = is_of_tcp(io.launch) ? BackendChoice::Tcp : BackendChoice::Mpi;
  }
  if (options.dry_run) return run_dry(options, loaded, io);
  if (loaded.config.checkpoint.memory_every != 0 && io.launch.memory_folder.empty() &&
      io.launch.is_first()) {
    io.err << "warning: checkpoint.memory_every has no effect: only trireme launch keeps "
              "checkpoints in memory\n";
  }
  return train(options, loaded, io);
}

}  // namespace trireme
