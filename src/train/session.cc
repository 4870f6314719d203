#include "train/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/file_lock.h"
#include "comm/local/sole_rank.h"
#include "comm/mpi/mpi_world.h"
#include "config/cluster_file.h"
#include "train/agree_on_plan.h"
#include "train/asynchronous.h"
#include "train/rank_session.h"
#include "train/resume.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLockName = ".lock";

bool is_unused(const std::string& folder) {
  std::error_code ignored;
  const fs::directory_iterator entries(folder, ignored);
  return std::all_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
    return entry.path().filename() == kLockName;
  });
}

// A folder that a fresh run may use: absent or empty.
Status check_out_dir(const SessionOptions& options) {
  std::error_code error;
  if (fs::exists(options.out_dir, error) && !fs::is_directory(options.out_dir, error)) {
    return Error{
        ErrorKind::Usage,
        fmt::format("--out {} is a file: a run needs a folder of its own", options.out_dir)};
  }
  if (options.resume != ResumeMode::Fresh || !options.is_first_process) return Done{};
  if (!fs::exists(options.out_dir, error) || is_unused(options.out_dir)) return Done{};
  return Error{ErrorKind::Usage,
               fmt::format("--out {} is not empty: continue that run with --resume auto, or choose "
                           "another folder",
                           options.out_dir)};
}

// The run's folder, made and kept from other runs while this one writes in it.
Result<std::optional<FileLock>> hold_out_dir(const SessionOptions& options) {
  std::error_code error;
  fs::create_directories(options.out_dir, error);
  if (error) {
    return Error{ErrorKind::Runtime,
                 fmt::format("--out {}: cannot make the folder: {}; choose one that you may write",
                             options.out_dir, error.message())};
  }
  if (!options.is_first_process) return std::optional<FileLock>();
  Result<FileLock> lock = FileLock::take(options.out_dir + "/" + kLockName);
  if (lock.ok()) return std::optional<FileLock>(std::move(*lock));
  if (lock.error().kind != ErrorKind::Usage) return lock.error();
  return Error{ErrorKind::Usage,
               fmt::format("--out {} is in use by another run: {}; stop that one, or choose "
                           "another folder",
                           options.out_dir, lock.error().message)};
}

// Ends a rank, and with it all others, for a reason that the caller of the session is to hear.
class RankFailure : public std::runtime_error {
 public:
  explicit RankFailure(const Error& error) : std::runtime_error(error.message), error_(error) {}
  const Error& error() const { return error_; }

 private:
  Error error_;
};

// Runs `rank` on every rank of the plan's world, in this process or as one of those that a launcher
// has started.
Status run_world(const RunPlan& plan, const std::function<void(World&)>& rank) {
  const RunConfig& config = plan.config;
  const WorldOptions options{.timeout_s = config.run.comm_timeout_s};
  if (config.run.backend != "mpi") {
    run_ranks(plan.num_ranks(), options, rank);
    return Done{};
  }
  return run_mpi_rank(options, [&](World& world) {
    if (world.size() != plan.num_ranks()) {
      throw RankFailure({ErrorKind::Usage,
                         fmt::format("{} processes were started for the {} ranks of parallel.dp * "
                                     "tp * pp * cp; start that many, or change the degrees",
                                     world.size(), plan.num_ranks())});
    }
    rank(world);
  });
}

// Every rank of `function` in a world of its own, beside the group that all of them are in.
void run_apart(const RunPlan& plan, const std::function<void(World&, Group&)>& function) {
  const WorldOptions options{.timeout_s = plan.config.run.comm_timeout_s};
  run_ranks(plan.config.parallel.dp + 1, options, [&](World& all) {
    SoleRank own;
    function(own.world(), all.group());
  });
}

// What the first failing rank has thrown, as the caller's error.
Error error_of(const RankError& failure) {
  try {
    std::rethrow_if_nested(failure);
  } catch (const RankFailure& cause) {
    return cause.error();
  } catch (const IoError& cause) {
    return {ErrorKind::Damaged, cause.what()};
  } catch (const ContractError& cause) {
    return {ErrorKind::Runtime, fmt::format("a defect of Trireme: {}", cause.what())};
  } catch (const CommError& cause) {
    return {ErrorKind::Runtime, cause.what()};  // it names its rank
  } catch (const std::exception&) {
  }
  return {ErrorKind::Runtime, failure.what()};
}

}  // namespace

Result<RunPlan> plan_session(const RunConfig& config, HostFacts host) {
  TRIREME_TRY(vocab_size, data_vocab_size(config));
  host.data_vocab_size = vocab_size;
  if (!host.hardware && !config.run.hardware.empty()) {
    TRIREME_TRY(hardware, load_hardware(config.run.hardware));
    host.hardware = hardware;
  }
  return make_plan(config, host);
}

Result<SessionResult> run_session(const SessionOptions& options) {
  TRIREME_TRY_DONE(check_out_dir(options));
  TRIREME_TRY(choice, choose_kernels(options.config.run.isa));
  TRIREME_TRY(plan, plan_session(options.config, options.host));
  // What is wrong with the data is said before anything is made.
  TRIREME_TRY_DONE(open_session_data(options.config, plan.model.vocab_size));
  TRIREME_TRY_DONE(find_resume_folder(options));
  Result<std::optional<FileLock>> held = hold_out_dir(options);
  if (!held.ok()) return held.error();
  // Another run may have ended here in between.
  TRIREME_TRY_DONE(check_out_dir(options));
  TRIREME_TRY(checkpoint_folder, find_resume_folder(options));
  const SessionParts parts{options, plan, choice, checkpoint_folder};
  SessionResult first_result;
  const auto rank = [&](World& world, const MakeSteps& make_steps) {
    if (const Status agreed = agree_on_plan(world, plan); !agreed.ok()) {
      throw RankFailure(agreed.error());
    }
    Result<SessionData> data = open_session_data(options.config, plan.model.vocab_size);
    if (!data.ok()) throw RankFailure(data.error());
    RankSession session(parts, world, std::move(*data), make_steps);
    Result<SessionResult> result = session.run();
    if (!result.ok()) throw RankFailure(result.error());
    if (world.rank() == 0) first_result = std::move(*result);
    world.group().barrier_after_lone_work();
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
    const Result<SessionData> data = open_session_data(options.config, plan.model.vocab_size);
    if (!data.ok()) throw RankFailure(data.error());
    Engine engine(plan, own, *choice.kernels, *data->train, options.out_dir);
    run_asynchronous_worker(all, plan, engine);
  };
  try {
    if (plan.is_asynchronous()) {
      run_apart(plan, server_or_worker);
    } else {
      TRIREME_TRY_DONE(run_world(plan, together));
    }
  } catch (const RankError& failure) {
    return error_of(failure);
  }
  first_result.out_dir_lock = std::move(*held);
  return first_result;
}

}  // namespace trireme
