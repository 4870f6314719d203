#include "session/session.h"

#include <fmt/format.h>

#include <filesystem>

#include "agent/job_failure.h"
#include "base/failure.h"
#include "base/file_lock.h"
#include "comm/local/sole_rank.h"
#include "config/cluster_file.h"
#include "observe/metrics_server.h"
#include "planner/make_plan.h"
#include "session/add_data_facts.h"
#include "session/agree_on_plan.h"
#include "session/asynchronous.h"
#include "session/held_folders.h"
#include "session/rank_session.h"
#include "session/resume.h"
#include "session/resumed_config.h"
#include "session/run_folder.h"
#include "session/run_world.h"

namespace trireme {
namespace {

// Runs `function` on every rank in a world of its own, beside the group of all ranks.
void run_apart(const RunPlan& plan, const WorldOptions& options,
               const std::function<void(World&, Group&)>& function) {
  run_ranks(plan.config.parallel.dp + 1, options, [&](World& all) {
    SoleRank own(&all.group().progress());
    function(own.world(), all.group());
  });
}

}  // namespace

Result<RunPlan> plan_session(const RunConfig& config, HostFacts host, const OpenInput& open_input) {
  TRIREME_TRY_DONE(add_data_facts(config, open_input, host));
  if (!host.hardware && !config.run.hardware.empty()) {
    TRIREME_TRY(hardware, load_hardware(config.run.hardware));
    host.hardware = hardware;
  }
  return make_plan(config, host);
}

Result<RunPlan> plan_run(const RunConfig& config, const HostFacts& host,
                         const OpenInput& open_input) {
  TRIREME_TRY_DONE(check_runnable(with_defaults(config.model, 0)));
  return plan_session(config, host, open_input);
}

namespace {

// What a process keeps from one epoch to the next.
struct Prepared {
  KernelChoice choice;
  RunPlan plan;
  std::vector<FileLock> locks;
  RunFolder folder;
  CpuLoad load;
};

// True if the ranks of this process may continue in another epoch. The rank that has failed first
// ends with its error, unless its agent has ended the epoch. All end if the configuration, the plan
// or a file is wrong.
bool is_survivor(const SessionOptions& options, const RankError& failure) {
  if (options.link == nullptr || failure.error().kind != ErrorKind::Runtime) return false;
  return failure.rank() != options.place->rank || run_right(options).is_over();
}

struct EpochEnd {
  Result<SessionResult> result;
  bool has_survived = false;  // another rank is lost
};

// Takes the place in the epoch, and looks where it resumes.
Status enter_epoch(const SessionOptions& given, const EpochOrder& order, SessionOptions& options,
                   Prepared& prepared) {
  const int ranks_on_host = options.host.ranks_on_host;
  const EpochLayout layout = epoch_layout_of(options.config);
  take_order(order, options);
  options.link->progress().reach(CrashPoint::OrderTaken);
  if (options.is_first_process) options.observers = given.observers;
  if (layout != order.layout || order.ranks_on_host != ranks_on_host) {
    TRIREME_TRY(plan, plan_run(options.config, options.host, options.open_input));
    prepared.plan = std::move(plan);
  }
  if (options.is_first_process && prepared.locks.empty()) {
    TRIREME_TRY(locks, hold_unless_gone(options));
    prepared.locks = std::move(locks);
  }
  sweep_folders(options);
  return Done{};
}

EpochEnd run_epoch(const SessionOptions& options, Prepared& prepared);

// True if the agent has asked for another epoch, and the run must not end here anyway: nobody has
// asked it to stop, and run.stop_after is not reached.
bool has_stopped_for_epoch(const SessionOptions& options, const Result<SessionResult>& result) {
  return result.ok() && result->end == TrainEnd::Stopped && options.link != nullptr &&
         options.stop_signals == 0 && !is_at_stop(options.config.run, result->position) &&
         options.link->page().wanted_epoch > options.place->epoch;
}

std::string why_ended(const Result<SessionResult>& result) {
  return result.ok() ? "" : result.error().message;
}

}  // namespace

void take_order(const EpochOrder& order, SessionOptions& options) {
  options.order = order;
  options.place->epoch = order.epoch;
  options.place->rank = order.rank;
  options.place->size = order.size;
  options.place->rendezvous = order.rendezvous.data();
  options.host.ranks_on_host = order.ranks_on_host;
  options.config = with_epoch_layout(std::move(options.config), order.layout);
  options.is_first_process = order.rank == 0;
  const int64_t saved_step = options.link->page().saved_step;
  if (options.resume == ResumeMode::Path) {
    if (saved_step <= 0) return;  // agree_on_resume prefers what the job has in memory
    options.before_step = saved_step + 1;
  }
  options.resume = ResumeMode::Auto;
}

namespace {

// Refuses a resume from a wrong checkpoint before the folder of the run is made.
Status check_resumed(const SessionOptions& options, const RunPlan& plan) {
  TRIREME_TRY(folder, find_resume_folder(options));
  if (options.resume != ResumeMode::Path) return Done{};
  TRIREME_TRY(checkpoint, Checkpoint::open(folder, options.open_input));
  TRIREME_TRY_DONE(changes_since(checkpoint, plan));
  return Done{};
}

// Refuses a Prometheus file or port that cannot be used. It is called before the folder of the run
// is made.
Status check_prometheus(const SessionOptions& options) {
  const RunSection& run = options.config.run;
  if (!options.is_first_process || options.order) return Done{};
  const auto folder = std::filesystem::path(run.prometheus_file).parent_path();
  std::error_code ignored;
  if (!folder.empty() && !std::filesystem::is_directory(folder, ignored)) {
    return usage(
        fmt::format("run.prometheus_file = \"{}\": there is no folder {}; make it, or "
                    "choose another file",
                    run.prometheus_file, folder.string()));
  }
  if (run.prometheus_port == 0) return Done{};
  const auto server =
      MetricsServer::listen(run.prometheus_host, run.prometheus_port, [] { return std::string(); });
  return server.ok() ? Status(Done{}) : Status(server.error());
}

void show_phase(const SessionOptions& options, RankPhase phase) {
  if (options.link != nullptr) options.link->progress().enter(phase, steady_now_ns());
}

}  // namespace

Result<SessionResult> run_session(const SessionOptions& given) {
  SessionOptions options = given;
  if (options.link != nullptr) {
    options.link->progress().set_limits(options.config.checkpoint.timeout_s,
                                        options.config.run.comm_timeout_s);
  }
  if (!options.is_first_process) options.observers.clear();
  TRIREME_TRY_DONE(check_out_dir(options));
  TRIREME_TRY(choice, choose_kernels(options.config.run.isa));
  TRIREME_TRY(plan, plan_run(options.config, options.host, options.open_input));
  // Opens the data first, so that data errors are reported before a folder is made.
  TRIREME_TRY_DONE(open_session_data(options.config, plan.model.vocab_size, options.open_input));
  TRIREME_TRY_DONE(check_resumed(options, plan));
  TRIREME_TRY_DONE(check_launched(options));
  TRIREME_TRY_DONE(check_prometheus(options));
  TRIREME_TRY(locks, hold_unless_gone(options));
  // Checks again, because another run may have used the folder in the meantime.
  TRIREME_TRY_DONE(check_out_dir(options));
  sweep_folders(options);
  TRIREME_TRY(folder, RunFolder::hold(options.out_dir, options.config.checkpoint.fallback_folder));
  if (options.link != nullptr && options.is_first_process) options.link->page().holds_folder = 1;
  Prepared prepared{choice, std::move(plan), std::move(locks), std::move(folder), {}};
  while (true) {
    EpochEnd end = run_epoch(options, prepared);
    const bool goes_on = end.has_survived || has_stopped_for_epoch(options, end.result);
    if (goes_on && run_right(options).is_over()) prepared.locks.clear();
    show_phase(options, goes_on ? RankPhase::Recover : RankPhase::Leave);
    const std::optional<EpochOrder> order =
        goes_on ? options.link->next_epoch(options.place->epoch, why_ended(end.result))
                : std::nullopt;
    if (!order) {
      if (end.result.ok()) end.result->locks = std::move(prepared.locks);
      return std::move(end.result);
    }
    TRIREME_TRY_DONE(enter_epoch(given, *order, options, prepared));
  }
}

namespace {

EpochEnd run_epoch(const SessionOptions& options, Prepared& prepared) {
  const KernelChoice& choice = prepared.choice;
  const RunPlan& plan = prepared.plan;
  SessionParts parts{options, plan, choice, prepared.folder, prepared.load};
  SessionResult first_result;
  const auto rank = [&](World& world, const MakeSteps& make_steps) {
    if (options.link != nullptr) options.link->tell_joined(options.place->epoch);
    world.group().page().begin_epoch(options.place ? options.place->epoch : 1, world.rank(),
                                     steady_now_ns());
    if (world.rank() == 0) parts.joined_ns = steady_now_ns();
    if (const Status agreed = agree_on_plan(world, plan); !agreed.ok()) {
      throw Failure(agreed.error());
    }
    Result<SessionData> data =
        open_session_data(options.config, plan.model.vocab_size, options.open_input);
    if (!data.ok()) throw Failure(data.error());
    RankSession session(parts, world, std::move(*data), make_steps);
    Result<SessionResult> result = session.run();
    if (!result.ok()) throw Failure(result.error());
    if (world.rank() == 0 || options.link != nullptr) first_result = std::move(*result);
    world.group().monitored_barrier();
    session.finish_retention();
  };
  const auto together = [&](World& world) {
    rank(world, [](Engine& engine) { return std::make_unique<StepsTogether>(engine); });
  };
  const auto server_or_worker = [&](World& own, Group& all) {
    if (all.rank() == 0) {
      return rank(own, [&](Engine& engine) {
        return std::make_unique<AsynchronousServer>(all, plan, engine);
      });
    }
    const Result<SessionData> data =
        open_session_data(options.config, plan.model.vocab_size, options.open_input);
    if (!data.ok()) throw Failure(data.error());
    Engine engine(plan, own, *choice.kernels, *data->train, options.out_dir);
    run_asynchronous_worker(all, plan, engine);
  };
  try {
    if (plan.is_asynchronous()) {
      run_apart(plan, world_options(options, plan), server_or_worker);
    } else if (const Status met = run_world(plan, options, together); !met.ok()) {
      return {met.error(), options.link != nullptr};
    }
  } catch (const RankError& failure) {
    return {failure.error(), is_survivor(options, failure)};
  }
  first_result.is_first = options.is_first_process;
  return {std::move(first_result), false};
}

}  // namespace

}  // namespace trireme
