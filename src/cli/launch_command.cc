#include "cli/launch_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <ostream>
#include <sstream>

#include "agent/agent_wire.h"
#include "agent/host_history.h"
#include "agent/job_status.h"
#include "agent/place_variables.h"
#include "agent/rank_exit_code.h"
#include "agent/rank_processes.h"
#include "agent/run_right.h"
#include "api/this_machine.h"
#include "base/absolute_folder.h"
#include "base/clock.h"
#include "base/file.h"
#include "cli/exit_code.h"
#include "cli/launch_layouts.h"
#include "cli/path_checks.h"
#include "cli/stored_run.h"
#include "cli/train_command.h"
#include "comm/mpi/mpi_world.h"
#include "comm/tcp/rendezvous.h"
#include "compile/run_plan.h"
#include "config/failure_rules_file.h"
#include "device/host.h"
#include "observe/metrics.h"
#include "session/held_folders.h"
#include "session/preflight_report.h"
#include "session/session.h"

namespace trireme {
namespace {

std::vector<std::string> train_arguments(const LaunchOptions& options) {
  std::vector<std::string> words = {"trireme", "train"};
  const auto add = [&](const std::string& name, const std::string& value) {
    words.push_back("--" + name);
    words.push_back(value);
  };
  for (const std::string& key : options.config.overrides) add("set", key);
  if (options.config.ranks) add("ranks", std::to_string(*options.config.ranks));
  if (!options.out.empty()) add("out", options.out);
  if (!options.resume.empty()) add("resume", options.resume);
  if (options.check) words.emplace_back("--check");
  words.emplace_back("--");
  for (const std::string& file : options.config.files) words.push_back(file);
  return words;
}

// The configuration of such a command, for the agents that start ranks with it.
RunConfigOptions config_of(const std::vector<std::string>& arguments) {
  RunConfigOptions config;
  const auto files = std::find(arguments.begin(), arguments.end(), "--");
  for (auto word = arguments.begin(); word != files && word + 1 != files; ++word) {
    if (*word == "--set") config.overrides.push_back(*(word + 1));
    if (*word == "--ranks") config.ranks = std::atoll((word + 1)->c_str());
  }
  if (files != arguments.end()) config.files.assign(files + 1, arguments.end());
  config.overrides.emplace_back("run.backend=\"tcp\"");
  return config;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

Status check_options(const LaunchOptions& options, const std::string& secret) {
  if (options.max_restarts < 0) {
    return usage(fmt::format("--max-restarts {}: expected 0 or more", options.max_restarts));
  }
  if (!options.hosts.empty() && !options.hostfile.empty()) {
    return usage("--hosts and --hostfile both name hosts; give one of them");
  }
  for (const auto& [name, number] :
       {std::pair("--agents", options.agents), std::pair("--spares", options.spares)}) {
    if (number >= 0 && number <= kLargestTcpWorld) continue;
    return usage(fmt::format("{} {}: expected 0 to {} hosts", name, number, kLargestTcpWorld));
  }
  const bool has_hosts = !options.hosts.empty() || !options.hostfile.empty();
  if (has_hosts && options.agents > 0) {
    return usage(
        "--agents waits for hosts that join by themselves, and --hosts names hosts; give "
        "one of them");
  }
  if (options.agents > 0 && (secret.empty() || options.listen.empty())) {
    return usage(
        fmt::format("--agents needs --listen HOST:PORT, to which agents connect, and a "
                    "secret in the variable {}, the same as theirs: export {}=$(openssl "
                    "rand -hex 32)",
                    kSecretVariable, kSecretVariable));
  }
  const bool is_for_others = options.spares > 0 || !options.listen.empty() ||
                             !options.coord.empty() || options.lease_s.has_value();
  if (!has_hosts && options.agents == 0 && is_for_others) {
    return usage(
        "--spares, --listen, --coord and --lease are for several hosts; name them with --hosts, "
        "--hostfile or --agents");
  }
  if (has_hosts && words_of(options.ssh).empty()) return usage("--ssh is empty");
  const auto lease_s = double(options.lease_s.value_or(int64_t(kUsualLeaseS)));
  if (lease_s < kShortestLeaseS || lease_s > kLongestLeaseS) {
    return usage(fmt::format("--lease {}: expected {} to {} seconds", lease_s, kShortestLeaseS,
                             kLongestLeaseS));
  }
  return Done{};
}

// MPI ends all ranks of a job if one of them is lost, and starts no other agents.
Status check_mpi(const LaunchOptions& options) {
  if (!has_mpi()) {
    return usage(
        "run.backend = \"mpi\", but this program was built without MPI; leave the key out: "
        "trireme launch needs no MPI");
  }
  if (!options.hosts.empty() || !options.hostfile.empty() || options.agents > 0) {
    return usage(
        "run.backend = \"mpi\" starts the ranks of trireme launch on this host only; leave the "
        "key out to use several hosts");
  }
  if (options.on_loss != "respawn") {
    return usage(
        "--on-loss shrink: with run.backend = \"mpi\" no rank outlives a lost one, and all are "
        "started again; leave one of the two out");
  }
  const std::vector<std::string> mpirun = words_of(options.mpirun);
  if (mpirun.empty()) return usage("--mpirun is empty");
  if (options.search_path.empty() || has_program(mpirun.front(), options.search_path)) {
    return Done{};
  }
  return usage(fmt::format(
      "run.backend = \"mpi\", but {} is not found: install it (sudo apt-get install openmpi-bin), "
      "name it with --mpirun PATH, or leave the key out: trireme launch needs no MPI",
      mpirun.front()));
}

// Every agent finds the Coord and the fence below the folder of the run.
void name_coord(const LaunchOptions& options, const std::string& run_dir, OtherHosts& others) {
  if (!others.any()) return;
  others.run_dir = run_dir;
  others.coord_keys = absolute_folder(run_dir);
  others.coord =
      options.coord.empty() ? "file:" + others.coord_keys + "/" + kCoordFolder : options.coord;
  if (options.lease_s) others.lease_s = double(*options.lease_s);
  others.layouts = options.layouts;
}

Result<OtherHosts> other_hosts(const LaunchOptions& options, const std::string& secret) {
  TRIREME_TRY_DONE(check_options(options, secret));
  OtherHosts others{.agents = int(options.agents),
                    .spares = int(options.spares),
                    .listen = options.listen,
                    .shell = words_of(options.ssh),
                    .secret = secret};
  if (!options.hosts.empty()) {
    TRIREME_TRY(hosts, hosts_in(options.hosts));
    others.named = std::move(hosts);
  } else if (!options.hostfile.empty()) {
    TRIREME_TRY(hosts, hosts_in_file(options.hostfile));
    others.named = std::move(hosts);
  }
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  others.agent = {error ? "trireme" : program.string(), "agent", "--join"};
  others.folder = std::filesystem::current_path(error).string();
  return others;
}

// `ranks_per_host` is 0 if all ranks are on this host.
JobLayouts layouts_of(const RunConfig& config, int ranks_per_host, const std::string& change,
                      const OpenInput& open_input) {
  // Copies of the function share what was found.
  const auto layouts = std::make_shared<LaunchLayouts>(config, this_host(), ranks_per_host,
                                                       change_of(change), open_input);
  return {epoch_layout_of(config), [layouts](int most_ranks, const JobPage& page) {
            return layouts->fitting(most_ranks, page);
          }};
}

int ranks_per_host(const RankProcesses& processes) {
  const OtherHosts& others = processes.others;
  if (!others.any()) return 0;
  const int in_use = std::max(1, int(others.named.size()) + others.agents - others.spares);
  return (processes.ranks + in_use - 1) / in_use;
}

// Hosts without slots take as many ranks as are needed.
bool has_room(const std::vector<NamedHost>& hosts, int ranks) {
  int slots = 0;
  for (const NamedHost& host : hosts) {
    if (host.slots == 0) return true;
    slots += host.slots;
  }
  return slots >= ranks;
}

// Leaves out the named hosts that have failed too often lately, as long as the others have room. A
// damaged history is refused even if no host is named, because the run would add lines to it.
Status leave_out_failing(const std::string& run_dir, int ranks, OtherHosts& others, CommandIo& io) {
  TRIREME_TRY(failures, read_host_history(run_dir));
  const std::vector<NamedHost> named = others.named;
  for (const NamedHost& host : named) {
    const double score = score_of(failures, host.name, unix_time_s());
    if (score < kDrainScore) continue;
    std::vector<NamedHost> left = others.named;
    std::erase_if(left, [&](const NamedHost& other) { return other.name == host.name; });
    const bool can_go = !left.empty() && has_room(left, ranks);
    io.err << fmt::format(
        "warning: host {} has failed often lately (score {:.1f} of {:.1f}, {}): it is {}\n",
        host.name, score, kDrainScore, run_dir + "/" + kHostHistoryFile,
        can_go ? "left out; remove its lines to use it again"
               : "still used, because the other hosts have no room");
    if (!can_go) continue;
    others.named = std::move(left);
    others.spares = std::max(0, others.spares - 1);
  }
  return Done{};
}

}  // namespace

ClassifyFailure classify_by_built_in_rules() {
  return [rules = built_in_failure_rules()](const FailureEvidence& evidence) {
    return classify(evidence, rules);
  };
}

Result<JobLayouts> layouts_of(const JobTerms& terms, CommandIo& io) {
  TRIREME_TRY(loaded, load_config(config_of(terms.command), io));
  return layouts_of(loaded.config, terms.usual_slots, terms.layouts, io.open_input);
}

// Failures that no later epoch has written down. Before the first step the folder may be that of
// another run.
void note_last_failures(const RanksEnd& end, const std::string& out_dir) {
  if (!end.is_told_here) return;
  std::string lines;
  for (size_t i = size_t(end.told_failures); i < end.failures.size(); ++i) {
    if (end.failures[i].furthest_step == 0) continue;
    lines += failure_line(end.failures[i], int(i) + 1);
  }
  const std::string history = history_lines(end.failures);
  if (!history.empty()) {
    std::ofstream(out_dir + "/" + kHostHistoryFile, std::ios::app) << history;
  }
  const std::string path = out_dir + "/metrics.jsonl";
  if (!lines.empty()) (void)MetricsFile::append_lines(path, lines).ok();
}

namespace {

// Returns the processes to start for these options. `folder` is the run directory of the ranks.
Result<RankProcesses> processes_of(const LaunchOptions& options, const std::string& folder,
                                   CommandIo& io) {
  TRIREME_TRY(loaded, load_config(options.config, io));
  const bool uses_mpi = loaded.config.run.backend == BackendChoice::Mpi;
  if (uses_mpi) TRIREME_TRY_DONE(check_mpi(options));
  if (!uses_mpi) loaded.config.run.backend = BackendChoice::Tcp;
  const EpochLayout layout = epoch_layout_of(loaded.config);
  RankProcesses processes{
      .command = train_arguments(options),
      .ranks = layout.num_ranks(),
      .start_timeout_s = join_timeout_s(loaded.config.run.comm_timeout_s),
      .log = [&io](const std::string& text) { io.err << "warning: " << text << "\n"; },
      .note = [&io](const std::string& text) { io.err << text << "\n"; },
      .max_restarts = int(options.max_restarts),
      .layout = layout,
      .host = host_name()};
  TRIREME_TRY(others, other_hosts(options, io.launch.secret));
  processes.others = std::move(others);
  if (uses_mpi) processes.mpirun = words_of(options.mpirun);
  TRIREME_TRY_DONE(leave_out_failing(folder, processes.ranks, processes.others, io));
  name_coord(options, folder, processes.others);
  processes.status_file = folder + "/" + kStatusFile;
  processes.keeps_memory_folder = wants_memory_checkpoints(loaded.config);
  processes.leaves_lost_out = options.on_loss == "shrink";
  processes.skips_bad_batches = loaded.config.run.skip_bad_batches;
  processes.fitting =
      layouts_of(loaded.config, ranks_per_host(processes), options.layouts, io.open_input).fitting;
  processes.classify = classify_by_built_in_rules();
  return processes;
}

int tell_end(const RanksEnd& end, const LaunchOptions& options, CommandIo& io) {
  if (end.first_failed < 0) {
    if (end.exit_code != 0 && !end.why_no_restart.empty()) print_error(end.why_no_restart, io);
    return end.exit_code;
  }
  io.err << end.error_output;
  print_error(
      fmt::format("trireme launch: rank {} failed first: it {}{}", end.first_failed, end.why,
                  end.why_no_restart.empty() || options.max_restarts == 0
                      ? ""
                      : "; the run ends, because " + end.why_no_restart),
      io);
  return end.exit_code;
}

// Lets the ranks compare their hosts, and prints the report of the first rank. The ranks work in a
// folder beside the run directory, which is removed afterwards with all files in it.
Result<int> run_check(LaunchOptions options, CommandIo& io) {
  options.out = run_folder_of(options.config, options.out) + ".check";
  options.max_restarts = 0;
  const std::string folder = options.out;
  std::error_code ignored;
  if (std::filesystem::exists(folder, ignored)) {
    return usage(fmt::format("{} exists: another check runs, or has left it; remove it", folder));
  }
  TRIREME_TRY(processes, processes_of(options, folder, io));
  Result<RanksEnd> end = run_rank_processes(processes);
  const Result<std::string> json = read_text_file(folder + "/" + kPreflightJson);
  const Result<std::string> text = read_text_file(folder + "/" + kPreflightText);
  std::filesystem::remove_all(folder, ignored);
  if (!end.ok()) return end.error();
  if (const int code = tell_end(*end, options, io); code != 0) return code;
  if (!json.ok()) return json.error();
  if (!text.ok()) return text.error();
  io.out << (options.json ? *json : *text);
  return is_good_preflight(*json) ? 0 : kFailedExitCode;
}

}  // namespace

Result<int> run_launch(const LaunchOptions& given, CommandIo& io) {
  if (io.launch.ranks > 0) {
    return usage(
        "a launcher has started this process already; start `trireme launch` by itself, "
        "or `trireme train` under mpirun or srun");
  }
  LaunchOptions options = given;
  TRIREME_TRY_DONE(take_stored_out(options.config, options.out));
  if (options.check) return run_check(options, io);
  if (options.json) return usage("--json prints a check; give --check, too, or leave it out");
  const std::string folder = run_folder_of(options.config, options.out);
  // Other hosts may have a folder of this name that is another one.
  if (options.hosts.empty() && options.hostfile.empty() && options.agents == 0) {
    const bool is_fresh = options.resume.empty();
    TRIREME_TRY_DONE(check_run_folder(folder, is_fresh ? ResumeMode::Fresh : ResumeMode::Auto));
  }
  TRIREME_TRY(loaded, load_config(options.config, io));
  const std::string& url = loaded.config.checkpoint.store;
  if (!url.empty()) TRIREME_TRY_DONE(prepare_stored_run(url, folder, options.resume, io));
  TRIREME_TRY(processes, processes_of(options, folder, io));
  TRIREME_TRY(end, run_rank_processes(processes));
  note_last_failures(end, folder);
  return tell_end(end, options, io);
}

}  // namespace trireme
