#include "cli/command_table.h"

#include <memory>

#include "cli/config_command.h"
#include "cli/doctor_command.h"
#include "cli/report_command.h"

namespace trireme {

// The rows of a command hold pointers into its options struct. The function that runs the command
// owns the struct, so it lives as long as the table.

Argument run_config_argument(std::vector<std::string>& files, bool required) {
  return {.name = "RUN.toml",
          .doc = "the configuration; later files override earlier ones",
          .target = &files,
          .required = required,
          .completion = Completion::File};
}

Option set_option(std::vector<std::string>& overrides) {
  return {.name = "set",
          .value_name = "KEY=VALUE",
          .doc = "override a key of the files, such as model.layers=4",
          .target = &overrides,
          .completion = Completion::ConfigKey};
}

Option ranks_option(std::optional<int>& ranks) {
  return {.name = "ranks",
          .value_name = "N",
          .doc = "number of ranks; parallel.dp is derived from it unless it is set",
          .target = &ranks};
}

Option json_option(bool& json) { return {.name = "json", .doc = "print JSON", .target = &json}; }

Option threads_option(int& threads) {
  return {.name = "threads",
          .letter = 't',
          .value_name = "N",
          .doc = "number of threads; 0: all cores",
          .target = &threads};
}

Status require_option(const std::string& value, const char* option) {
  if (!value.empty()) return Done{};
  return usage(std::string(option) + " is missing");
}

Result<int> exit_code_of(const Status& status) {
  if (!status.ok()) return status.error();
  return 0;
}

Command report_command() {
  auto options = std::make_shared<ReportOptions>();
  return {.name = "report",
          .summary = "Write report.html of a run, one file that opens in any browser.",
          .details =
              "With --compare, the command writes one page about several runs. It shows their "
              "curves in one plot, their main figures, and the configuration keys that differ.",
          .arguments = {{.name = "RUN_DIR",
                         .doc = "the run directory; with --compare, several of them",
                         .target = &options->run_dirs,
                         .completion = Completion::Folder}},
          .options = {{.name = "compare",
                       .doc = "compare several runs on one page",
                       .target = &options->compare},
                      {.name = "out",
                       .value_name = "FILE",
                       .doc = "the page to write; by default report.html in the run directory, or "
                              "with --compare comparison.html in the first run directory",
                       .target = &options->out,
                       .completion = Completion::File}},
          .examples = {"trireme report runs/demo", "trireme report --compare runs/a runs/b"},
          .run = [options](CommandIo& io) { return run_report(*options, io); }};
}

namespace {

Command config_show_command() {
  auto options = std::make_shared<ConfigShowOptions>();
  return {.name = "show",
          .summary = "Print the resolved configuration, every key with its value.",
          .arguments = {run_config_argument(options->config.files, /*required=*/false)},
          .options = {set_option(options->config.overrides), ranks_option(options->config.ranks),
                      json_option(options->json)},
          .run = [options](CommandIo& io) { return run_config_show(*options, io); }};
}

Command config_explain_command() {
  auto options = std::make_shared<ConfigExplainOptions>();
  return {.name = "explain",
          .summary =
              "Explain where each value comes from, what it replaces, and what is derived from it.",
          .details =
              "With a key, such as parallel.tp, the command explains the purpose of the key, its "
              "possible values and what it can change. If files are named too, it also prints the "
              "value of the key in them.",
          .arguments = {{.name = "RUN.toml",
                         .doc = "the configuration, or a key; later files override earlier ones",
                         .target = &options->config.files,
                         .required = false,
                         .completion = Completion::File}},
          .options = {set_option(options->config.overrides),
                      ranks_option(options->config.ranks),
                      {.name = "all",
                       .doc = "also list keys that have their default value",
                       .target = &options->all}},
          .examples = {"trireme config explain configs/demo.toml",
                       "trireme config explain parallel.tp"},
          .run = [options](CommandIo& io) { return run_config_explain(*options, io); }};
}

Command config_diff_command() {
  auto options = std::make_shared<ConfigDiffOptions>();
  return {
      .name = "diff",
      .summary =
          "List the keys in which two configurations differ, and what the difference can change.",
      .arguments =
          {{.name = "A.toml B.toml",
            .doc = "the two configurations; a single file is compared with itself after --set",
            .target = &options->config.files,
            .completion = Completion::File}},
      .options = {set_option(options->config.overrides)},
      .run = [options](CommandIo& io) { return run_config_diff(*options, io); }};
}

Command config_docs_command() {
  return {.name = "docs",
          .summary = "Print docs/configuration.md: every key, its default and its meaning.",
          .run = [](CommandIo& io) -> Result<int> {
            io.out << configuration_markdown();
            return 0;
          }};
}

}  // namespace

Command config_command() {
  return {.name = "config",
          .summary = "Show, explain and compare configurations.",
          .subcommands = {config_show_command(), config_explain_command(), config_diff_command(),
                          config_docs_command()}};
}

Command doctor_command(const Environment& environment) {
  auto options = std::make_shared<DoctorOptions>();
  options->search_path = environment.path;
  return {.name = "doctor",
          .summary = "Check what this machine offers, what is missing, and how to install it.",
          .options = {json_option(options->json)},
          .run = [options](CommandIo& io) { return run_doctor(*options, io); }};
}

Command command_table(const Environment& environment) {
  return {.name = "trireme",
          .summary = "Train large language models on many devices.",
          .details = "Standard output carries data. Standard error carries progress and logs.",
          .subcommands = {train_command(),
                          sweep_command(),
                          launch_command(environment),
                          chaos_command(),
                          agent_command(),
                          status_command(),
                          stop_command(),
                          drain_command(),
                          failures_command(),
                          scrub_command(),
                          store_command(),
                          plan_command(),
                          serve_plan_command(),
                          generate_command(),
                          eval_command(),
                          schedule_command(),
                          tokenizer_command(),
                          data_command(),
                          checkpoint_command(),
                          bench_command(),
                          calibrate_command(),
                          reproduce_command(),
                          report_command(),
                          config_command(),
                          doctor_command(environment)}};
}

}  // namespace trireme
