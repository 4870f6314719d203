#include "cli/launch_command.h"

#include <fmt/format.h>

#include <ostream>

#include "agent/rank_processes.h"
#include "cli/exit_code.h"

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
  const RankProcesses processes{
      .command = train_arguments(options),
      .ranks = parallel.dp * parallel.tp * parallel.pp * parallel.cp,
      .start_timeout_s = loaded.config.run.comm_timeout_s,
      .log = [&io](const std::string& text) { io.err << "warning: " << text << "\n"; }};
  TRIREME_TRY(end, run_rank_processes(processes));
  if (end.first_failed < 0) return end.exit_code;
  io.err << end.error_output;
  print_error(fmt::format("trireme launch: rank {} failed first: it {}", end.first_failed, end.why),
              io);
  return end.exit_code;
}

}  // namespace trireme
