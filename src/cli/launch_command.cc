#include "cli/launch_command.h"

#include <fmt/format.h>

#include <ostream>

#include "agent/job_status.h"
#include "agent/rank_processes.h"
#include "cli/exit_code.h"
#include "cli/train_command.h"
#include "comm/tcp/rendezvous.h"
#include "device/host.h"
#include "observe/metrics.h"

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
  words.emplace_back("--");
  for (const std::string& file : options.config.files) words.push_back(file);
  return words;
}

// Returns the greatest dp for which `most` ranks are enough and which divides that of the
// configuration, and its number of ranks; {0, 0} if there is none.
std::pair<int, int> smaller_dp(const ParallelConfig& parallel, int most) {
  const int replica = parallel.tp * parallel.pp * parallel.cp;
  for (int dp = parallel.dp; dp > 0; --dp) {
    if (parallel.dp % dp == 0 && dp * replica <= most) return {dp, dp * replica};
  }
  return {0, 0};
}

// Failures that no later epoch has written down. Before the first step the folder may be that of
// another run.
void note_last_failures(const RanksEnd& end, const std::string& out_dir) {
  std::string lines;
  for (size_t i = size_t(end.told_failures); i < end.failures.size(); ++i) {
    if (end.failures[i].furthest_step == 0) continue;
    lines += failure_line(end.failures[i], int(i) + 1, host_name());
  }
  const std::string path = out_dir + "/metrics.jsonl";
  if (!lines.empty()) (void)MetricsFile::append_lines(path, lines).ok();
}

}  // namespace

Result<int> run_launch(const LaunchOptions& options, CommandIo& io) {
  if (io.launch.ranks > 0) {
    return usage(
        "a launcher has started this process already; start `trireme launch` by itself, "
        "or `trireme train` under mpirun or srun");
  }
  RunConfigOptions config = options.config;
  config.overrides.emplace_back("run.backend=\"tcp\"");
  TRIREME_TRY(loaded, load_config(config, io));
  const ParallelConfig& parallel = loaded.config.parallel;
  RankProcesses processes{
      .command = train_arguments(options),
      .ranks = parallel.dp * parallel.tp * parallel.pp * parallel.cp,
      .start_timeout_s = join_timeout_s(loaded.config.run.comm_timeout_s),
      .log = [&io](const std::string& text) { io.err << "warning: " << text << "\n"; },
      .max_restarts = int(options.max_restarts),
      .dp = parallel.dp,
      .host = host_name()};
  const std::string folder = run_folder_of(options.config, options.out);
  processes.status_file = folder + "/" + kStatusFile;
  if (options.on_loss == "shrink") {
    processes.shrink = [&](int most) { return smaller_dp(parallel, most); };
  }
  TRIREME_TRY(end, run_rank_processes(processes));
  note_last_failures(end, folder);
  if (end.first_failed < 0) return end.exit_code;
  io.err << end.error_output;
  print_error(
      fmt::format("trireme launch: rank {} failed first: it {}{}", end.first_failed, end.why,
                  end.why_no_restart.empty() || options.max_restarts == 0
                      ? ""
                      : "; the run ends, because " + end.why_no_restart),
      io);
  return end.exit_code;
}

}  // namespace trireme
