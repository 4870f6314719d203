#include "cli/command_table.h"

#include <memory>

#include "cli/agent_command.h"
#include "cli/checkpoint_command.h"
#include "cli/checkpoint_interchange_command.h"
#include "cli/config_command.h"
#include "cli/doctor_command.h"
#include "cli/failures_command.h"
#include "cli/generate_command.h"
#include "cli/launch_command.h"
#include "cli/plan_command.h"
#include "cli/plan_jobs.h"
#include "cli/report_command.h"
#include "cli/status_command.h"
#include "cli/train_command.h"

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

Result<int> exit_code_of(const Status& status) {
  if (!status.ok()) return status.error();
  return 0;
}

namespace {

Option run_folder_option(std::string& target) {
  return {.name = "out",
          .value_name = "DIR",
          .doc = "the run directory; by default runs/ followed by the name of the configuration",
          .target = &target,
          .completion = Completion::Folder};
}

Option resume_option(std::string& target) {
  return {.name = "resume",
          .value_name = "auto|PATH",
          .doc = "resume from the newest good checkpoint of --out (auto), or from this checkpoint",
          .target = &target,
          .completion = Completion::Folder};
}

}  // namespace

Command train_command() {
  auto options = std::make_shared<TrainOptions>();
  return {
      .name = "train",
      .summary = "Train a model.",
      .details =
          "The command writes the resolved configuration, the plan, metrics.jsonl, a trace, a "
          "report and checkpoints into the run directory. After the first SIGINT or SIGTERM it "
          "finishes the step, saves and exits with code 130. After the second one it ends at once, "
          "without saving.",
      .arguments = {run_config_argument(options->config.files)},
      .options = {set_option(options->config.overrides),
                  ranks_option(options->config.ranks),
                  run_folder_option(options->out),
                  resume_option(options->resume),
                  {.name = "dry-run",
                   .doc = "print what would run and what it needs, without running it",
                   .target = &options->dry_run},
                  {.name = "json", .doc = "print the dry run as JSON", .target = &options->json}},
      .examples = {"trireme train configs/tiny-gpt2.toml --out /tmp/run",
                   "trireme train configs/demo.toml --set run.steps=100 --resume auto"},
      .run = [options](CommandIo& io) { return run_train(*options, io); }};
}

Command launch_command() {
  auto options = std::make_shared<LaunchOptions>();
  return {
      .name = "launch",
      .summary = "Train a model with a process for every rank.",
      .details =
          "The numbers are those of train. The processes run on this host, or on the hosts that "
          "are "
          "named. The command passes SIGINT, SIGTERM and SIGUSR1 on to the ranks, which save and "
          "exit. If a rank dies or hangs, the other ranks keep their processes, the lost one is "
          "started again, and all resume from the newest checkpoint. If a host is gone, its ranks "
          "are started on another one that has free slots, or the run resumes with fewer ranks "
          "in another layout, until hosts come back. A "
          "failure that would come again ends the run: the command names the rank that failed "
          "first and ends with its exit code. If the command itself is killed, its ranks are "
          "killed, too; those of other hosts go on.",
      .arguments = {run_config_argument(options->config.files)},
      .options =
          {set_option(options->config.overrides),
           ranks_option(options->config.ranks),
           run_folder_option(options->out),
           resume_option(options->resume),
           {.name = "max-restarts",
            .value_name = "N",
            .doc = "how many failures within an hour the run survives; 0: the first one ends it",
            .target = &options->max_restarts},
           {.name = "on-loss",
            .value_name = "WAY",
            .doc = "start a lost rank again, or resume with fewer ranks",
            .target = &options->on_loss,
            .choices = {"respawn", "shrink"}},
           {.name = "layouts",
            .value_name = "WHICH",
            .doc = "the layouts for fewer ranks: all that keep the batch and the numbers, those "
                   "with a smaller parallel.dp, or none (the run ends)",
            .target = &options->layouts,
            .choices = {"any", "dp", "same"}},
           {.name = "hosts",
            .value_name = "LIST",
            .doc = "hosts for the ranks, each with its slots: a,b:2,c; localhost is this host",
            .target = &options->hosts},
           {.name = "hostfile",
            .value_name = "FILE",
            .doc = "a file with one HOST or HOST:SLOTS in each line",
            .target = &options->hostfile,
            .completion = Completion::File},
           {.name = "agents",
            .value_name = "N",
            .doc = "wait for N hosts that join by themselves: trireme agent",
            .target = &options->agents},
           {.name = "spares",
            .value_name = "K",
            .doc = "hosts that have no ranks until another host is gone",
            .target = &options->spares},
           {.name = "listen",
            .value_name = "ADDRESS",
            .doc = "HOST or HOST:PORT of this host, as other hosts reach it",
            .target = &options->listen},
           {.name = "ssh",
            .value_name = "COMMAND",
            .doc = "the command that starts a program on another host",
            .target = &options->ssh},
           {.name = "coord",
            .value_name = "STORE",
            .doc = "where the hosts agree: file:DIR, or etcd:HOST:PORT (default: the folder coord "
                   "in that of the run)",
            .target = &options->coord},
           {.name = "lease",
            .value_name = "SECONDS",
            .doc = "after how long without a sign of life a host counts as gone",
            .target = &options->lease_s}},
      .examples = {"trireme launch configs/tiny-gpt2.toml --ranks 2 --out /tmp/run"},
      .run = [options](CommandIo& io) { return run_launch(*options, io); }};
}

Command agent_command() {
  auto options = std::make_shared<AgentOptions>();
  return {.name = "agent",
          .summary = "Run ranks of a trireme launch of another host on this host.",
          .details =
              "The secret of the job is read from the variable TRIREME_SECRET, or from the "
              "first line of standard input. The agent stays until the job is over, and may lead "
              "it if the launcher is gone. The first SIGINT or SIGTERM lets the ranks save and "
              "leave this host, the second one ends them at once.",
          .options = {{.name = "join",
                       .value_name = "ADDRESS",
                       .doc = "HOST:PORT at which the launcher or another agent of the job listens",
                       .target = &options->leader},
                      {.name = "name",
                       .value_name = "HOST",
                       .doc = "the name of this host in the job, instead of its host name",
                       .target = &options->name},
                      {.name = "slots",
                       .value_name = "N",
                       .doc = "how many ranks may run here; 0: the launcher decides",
                       .target = &options->slots},
                      {.name = "wait",
                       .value_name = "SECONDS",
                       .doc = "how long to try to join",
                       .target = &options->wait_s}},
          .examples = {"srun trireme agent --join node1:7070"},
          .run = [options](CommandIo& io) { return run_agent(*options, io); }};
}

Argument run_dir_argument(std::string& run_dir) {
  return {.name = "RUN_DIR",
          .doc = "the folder of a run of trireme launch",
          .target = &run_dir,
          .completion = Completion::Folder};
}

Command status_command() {
  auto options = std::make_shared<StatusOptions>();
  return {.name = "status",
          .summary = "Print the ranks, epoch, step and failures of a run of trireme launch.",
          .details =
              "It reads the folder of the run, in which the agent that leads reports every second, "
              "on any host that sees this folder. A job on several hosts can also be asked without "
              "the folder: at HOST:PORT of the launcher (--listen) or of any other agent, with the "
              "secret of the job in the variable TRIREME_SECRET. If that agent does not lead, it "
              "names the one that does, which is asked then.",
          .arguments = {{.name = "RUN_DIR|ADDRESS",
                         .doc = "the folder of a run of trireme launch, or HOST:PORT of an agent",
                         .target = &options->run_dir,
                         .completion = Completion::Folder}},
          .options = {json_option(options->json),
                      {.name = "watch",
                       .doc = "print it again whenever it changes, until the run ends",
                       .target = &options->watch}},
          .examples = {"trireme status /tmp/run", "trireme status /tmp/run --watch",
                       "trireme status node1:7070 --json"},
          .run = [options](CommandIo& io) { return run_status(*options, io); }};
}

Command stop_command() {
  auto options = std::make_shared<StatusOptions>();
  return {.name = "stop",
          .summary = "Ask a run of trireme launch to save and end.",
          .details =
              "A run on one host must be on this one. It ends with exit code 130, as after Ctrl-C.",
          .arguments = {run_dir_argument(options->run_dir)},
          .examples = {"trireme stop /tmp/run"},
          .run = [options](CommandIo& io) { return run_stop(*options, io); }};
}

Command drain_command() {
  auto options = std::make_shared<DrainOptions>();
  return {.name = "drain",
          .summary = "Take a host out of a run of trireme launch.",
          .details =
              "After the step, the ranks save. Those of the host go to another one that has "
              "free slots, or the run goes on with fewer ranks.",
          .arguments = {run_dir_argument(options->run_dir),
                        {.name = "HOST", .doc = "a host of the run", .target = &options->host}},
          .examples = {"trireme drain /tmp/run node2"},
          .run = [options](CommandIo& io) { return run_drain(*options, io); }};
}

Command failures_command() {
  auto options = std::make_shared<FailuresOptions>();
  return {.name = "failures",
          .summary = "Say what has failed in a run, what usually causes it, and what to do.",
          .details =
              "Rules name the class of each failure by what is known about it; a failure that no "
              "rule explains is unknown. Without RUN_DIR, the rules are printed.",
          .arguments = {{.name = "RUN_DIR",
                         .doc = "the folder of a run",
                         .target = &options->run_dir,
                         .required = false,
                         .completion = Completion::Folder}},
          .options = {{.name = "rules",
                       .value_name = "FILE",
                       .doc = "rules on top of the built-in ones, such as failure_rules.toml",
                       .target = &options->rules,
                       .completion = Completion::File},
                      json_option(options->json)},
          .examples = {"trireme failures /tmp/run", "trireme failures /tmp/run --rules my.toml"},
          .run = [options](CommandIo& io) { return run_failures(*options, io); }};
}

Command plan_command() {
  auto options = std::make_shared<PlanOptions>();
  Command command = {
      .name = "plan",
      .summary = "Predict parameters, FLOPs, memory and time of a run without running it.",
      .details =
          "If the run does not fit into memory, the exit code is 3. The message names the tensor "
          "and the action that exceed the limit, and the cheapest change that would fit.",
      .arguments = {run_config_argument(options->config.files, false)},
      .options = {set_option(options->config.overrides),
                  ranks_option(options->config.ranks),
                  from_option(options->jobs),
                  export_option(options->jobs),
                  job_out_option(options->jobs),
                  {.name = "cluster",
                   .value_name = "FILE",
                   .doc = "hardware file to predict for; by default this machine",
                   .target = &options->cluster,
                   .completion = Completion::File},
                  {.name = "search",
                   .doc = "search the fastest layouts that fit; varies degrees, ZeRO stage and "
                          "shards, schedule, micro-batch size, recomputation, sequence and context "
                          "parallelism and overlap",
                   .target = &options->search},
                  {.name = "pareto",
                   .doc = "search, and also list the layouts that nothing beats in both step time "
                          "and memory",
                   .target = &options->pareto},
                  {.name = "explain",
                   .doc = "explain where time and memory go and what alternatives would cost; with "
                          "--search, explain why other layouts were rejected",
                   .target = &options->explain},
                  {.name = "html",
                   .value_name = "FILE",
                   .doc = "write an HTML page with the timelines, memory and traffic of the ranks",
                   .target = &options->html,
                   .completion = Completion::File},
                  {.name = "as",
                   .value_name = "TRAINER",
                   .doc = "price the run as this trainer executes it, and print the memory that it "
                          "would hold; only its memory decides then whether the run fits",
                   .target = &options->as,
                   .choices = {"megatron", "torchtitan", "deepspeed"}},
                  {.name = "rank",
                   .value_name = "R",
                   .doc = "print only this rank as JSON, in the form of an element of \"ranks\"",
                   .target = &options->rank},
                  {.name = "graph",
                   .value_name = "FILE",
                   .doc = "draw the graph of every unit of the model with shapes and placements, "
                          "before and after each pass: FILE.svg, .html or .txt; without FILE, "
                          "print it as text; with --rank, draw it for that rank",
                   .target = &options->graph,
                   .completion = Completion::File},
                  json_option(options->json)},
      .examples =
          {"trireme plan configs/tiny-gpt2.toml --set model.preset=gpt2-1.5b",
           "trireme plan configs/tiny-gpt2.toml --cluster clusters/dgx-a100-80g.toml "
           "--explain",
           "trireme plan configs/tiny-llama.toml --set parallel.tp=2 --graph graph.svg",
           "trireme plan my.toml --cluster clusters/dgx-h100.toml --export megatron -o train.sh",
           "trireme plan --from megatron train.sh --cluster clusters/dgx-h100.toml --search",
           "trireme plan my.toml --ranks 256 --rules --cluster clusters/dgx-a100-80g.toml",
           "trireme plan my.toml --cluster clusters/dgx-h100.toml --tokens 15e12 "
           "--price-per-hour 2.5",
           "trireme plan my.toml --cluster clusters/dgx-h100.toml --slow-rank 5=1.3 "
           "--slow-link cluster=0.5",
           "trireme plan my.toml --cluster clusters/h100-pods-24k.toml --failures llama3 --html "
           "plan.html",
           "trireme plan my.toml --ranks 256 --search --cluster clusters/dgx-a100-80g.toml"},
      .run = [options](CommandIo& io) { return run_plan(*options, io); }};
  for (Option& option : advice_options(options->advice)) command.options.push_back(option);
  for (Option& option : goodput_options(options->advice.goodput)) command.options.push_back(option);
  for (Option& option : what_if_options(options->what_if)) command.options.push_back(option);
  return command;
}

Command generate_command() {
  auto options = std::make_shared<GenerateOptions>();
  return {
      .name = "generate",
      .summary = "Continue a prompt with a trained model.",
      .options = {{.name = "checkpoint",
                   .letter = 'm',
                   .value_name = "DIR",
                   .doc = "a checkpoint, or a run directory, whose newest checkpoint is used",
                   .target = &options->checkpoint,
                   .completion = Completion::Folder},
                  {.name = "prompt",
                   .letter = 'p',
                   .value_name = "TEXT",
                   .doc = "the text to continue",
                   .target = &options->prompt},
                  {.name = "file",
                   .letter = 'f',
                   .value_name = "FILE",
                   .doc = "read the prompt from this file; - means standard input",
                   .target = &options->prompt_file,
                   .completion = Completion::File},
                  {.name = "tokens",
                   .letter = 'n',
                   .value_name = "N",
                   .doc = "number of tokens to generate",
                   .target = &options->num_tokens},
                  {.name = "temp",
                   .value_name = "T",
                   .doc = "temperature; 0: always take the likeliest token",
                   .target = &options->temperature},
                  {.name = "top-k",
                   .value_name = "K",
                   .doc = "draw only from the K likeliest tokens; 0: all",
                   .target = &options->top_k},
                  {.name = "top-p",
                   .value_name = "P",
                   .doc = "draw only from the likeliest tokens whose probabilities add up to P",
                   .target = &options->top_p},
                  {.name = "seed",
                   .letter = 's',
                   .value_name = "N",
                   .doc = "random seed; the same seed gives the same text",
                   .target = &options->seed},
                  threads_option(options->threads)},
      .examples = {"trireme generate --checkpoint runs/demo -p 'It is a truth' -n 100 --temp 0.8"},
      .run = [options](CommandIo& io) -> Result<int> {
        if (options->checkpoint.empty()) {
          return Error{ErrorKind::Usage,
                       "--checkpoint is missing: name a run directory or a checkpoint, such as "
                       "--checkpoint runs/demo"};
        }
        return run_generate(*options, io);
      }};
}

namespace {

Status require_out(const std::string& out) {
  if (!out.empty()) return Done{};
  return Error{ErrorKind::Usage, "--out is missing"};
}

Command checkpoint_import_command() {
  auto options = std::make_shared<CheckpointImportOptions>();
  return {
      .name = "import",
      .summary = "Convert a model of another program into a checkpoint.",
      .details = "The command reads the result back and compares weights and logits bit for bit.",
      .arguments = {{.name = "DIR_OR_FILE",
                     .doc = "a Hugging Face folder, a GGUF file, or a .bin of llm.c",
                     .target = &options->path,
                     .completion = Completion::File}},
      .options =
          {{.name = "out",
            .letter = 'o',
            .value_name = "CHECKPOINT",
            .doc = "the folder of the new checkpoint",
            .target = &options->out,
            .completion = Completion::Folder},
           {.name = "trainable",
            .doc =
                "add an initial AdamW state, so that train --resume can start from this checkpoint",
            .target = &options->is_trainable},
           threads_option(options->threads)},
      .examples = {"trireme checkpoint import gpt2/ --out checkpoints/gpt2"},
      .run = [options](CommandIo& io) -> Result<int> {
        TRIREME_TRY_DONE(require_out(options->out));
        return run_checkpoint_import(*options, io);
      }};
}

Command checkpoint_export_command() {
  auto options = std::make_shared<CheckpointExportOptions>();
  return {
      .name = "export",
      .summary = "Convert the model of a checkpoint for another program.",
      .details =
          "The command reads the result back and compares weights and logits. If the format cannot "
          "hold the model, the exit code is 3.",
      .arguments = {{.name = "CHECKPOINT",
                     .doc = "a checkpoint, or a run directory, whose newest checkpoint is used",
                     .target = &options->path,
                     .completion = Completion::Folder}},
      .options = {{.name = "format",
                   .value_name = "FORMAT",
                   .doc =
                       "a Hugging Face folder, a GGUF file for llama.cpp, or a .bin file of llm.c",
                   .target = &options->format,
                   .choices = {"hf", "gguf", "llmc"}},
                  {.name = "dtype",
                   .value_name = "DTYPE",
                   .doc = "dtype of the matrices in the file; q8_0 only for GGUF",
                   .target = &options->dtype,
                   .choices = {"fp32", "fp16", "bf16", "q8_0"}},
                  {.name = "out",
                   .letter = 'o',
                   .value_name = "PATH",
                   .doc = "the folder or file to write",
                   .target = &options->out,
                   .completion = Completion::File},
                  threads_option(options->threads)},
      .examples = {"trireme checkpoint export runs/demo --format hf --out demo-hf"},
      .run = [options](CommandIo& io) -> Result<int> {
        TRIREME_TRY_DONE(require_out(options->out));
        return run_checkpoint_export(*options, io);
      }};
}

Command checkpoint_logits_command() {
  auto options = std::make_shared<CheckpointLogitsOptions>();
  return {.name = "logits",
          .summary =
              "Print the logits after each of a few tokens, to compare them with another program.",
          .arguments = {{.name = "MODEL",
                         .doc = "a checkpoint, a run directory, or a model of another program",
                         .target = &options->path,
                         .completion = Completion::File}},
          .options = {{.name = "tokens",
                       .value_name = "LIST",
                       .doc = "token numbers, separated by spaces or commas",
                       .target = &options->tokens},
                      threads_option(options->threads)},
          .examples = {"trireme checkpoint logits runs/demo --tokens 1,2,3"},
          .run = [options](CommandIo& io) { return run_checkpoint_logits(*options, io); }};
}

}  // namespace

Command checkpoint_command() {
  const auto subcommand = [](const char* name, const char* summary, auto run) -> Command {
    auto options = std::make_shared<CheckpointOptions>();
    return {
        .name = name,
        .summary = summary,
        .arguments = {{.name = "DIR",
                       .doc = "a checkpoint, or a run directory, whose newest checkpoint is used",
                       .target = &options->path,
                       .completion = Completion::Folder}},
        .options = {json_option(options->json)},
        .run = [options, run](CommandIo& io) { return run(*options, io); }};
  };
  return {
      .name = "checkpoint",
      .summary = "Inspect, verify, import and export checkpoints.",
      .subcommands = {
          subcommand("inspect", "List the contents of a checkpoint.", run_checkpoint_inspect),
          subcommand("verify", "Read every byte and check every checksum.", run_checkpoint_verify),
          checkpoint_import_command(), checkpoint_export_command(), checkpoint_logits_command()}};
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
          .subcommands = {train_command(), launch_command(), agent_command(), status_command(),
                          stop_command(), drain_command(), failures_command(), plan_command(),
                          generate_command(), schedule_command(), tokenizer_command(),
                          data_command(), checkpoint_command(), bench_command(),
                          calibrate_command(), reproduce_command(), report_command(),
                          config_command(), doctor_command(environment)}};
}

}  // namespace trireme
