#include "cli/command_table.h"

#include <memory>

#include "cli/checkpoint_command.h"
#include "cli/checkpoint_interchange_command.h"
#include "cli/config_command.h"
#include "cli/doctor_command.h"
#include "cli/generate_command.h"
#include "cli/plan_command.h"
#include "cli/report_command.h"
#include "cli/train_command.h"

namespace trireme {

// An options struct is shared by the rows of the table, which hold pointers into it, and by the
// function that reads it. The function owns it.

Argument run_config_argument(std::vector<std::string>& files, bool required) {
  return {.name = "RUN.toml",
          .doc = "the configuration; several are layered, later wins",
          .target = &files,
          .required = required,
          .completion = Completion::File};
}

Option set_option(std::vector<std::string>& overrides) {
  return {.name = "set",
          .value_name = "KEY=VALUE",
          .doc = "a value above all files, such as model.layers=4",
          .target = &overrides,
          .completion = Completion::ConfigKey};
}

Option ranks_option(std::optional<int>& ranks) {
  return {.name = "ranks",
          .value_name = "N",
          .doc = "world size; derives parallel.dp where that is not set",
          .target = &ranks};
}

Option json_option(bool& json) { return {.name = "json", .doc = "print JSON", .target = &json}; }

Option threads_option(int& threads) {
  return {.name = "threads",
          .letter = 't',
          .value_name = "N",
          .doc = "0: all cores",
          .target = &threads};
}

Result<int> exit_code_of(const Status& status) {
  if (!status.ok()) return status.error();
  return 0;
}

Command train_command() {
  auto options = std::make_shared<TrainOptions>();
  return {.name = "train",
          .summary = "Train a model.",
          .details =
              "The run directory gets the resolved configuration, the plan, metrics.jsonl, a "
              "trace, a report and checkpoints. The first SIGINT or SIGTERM finishes the step, "
              "saves and exits 130; the second ends at once.",
          .arguments = {run_config_argument(options->config.files)},
          .options = {set_option(options->config.overrides),
                      ranks_option(options->config.ranks),
                      {.name = "out",
                       .value_name = "DIR",
                       .doc = "the run directory; by default runs/ and the configuration's name",
                       .target = &options->out,
                       .completion = Completion::Folder},
                      {.name = "resume",
                       .value_name = "auto|PATH",
                       .doc = "continue from the newest checkpoint of --out, or from this one",
                       .target = &options->resume,
                       .completion = Completion::Folder},
                      {.name = "dry-run",
                       .doc = "say what would be run and what it needs",
                       .target = &options->dry_run},
                      {.name = "json", .doc = "the dry run as JSON", .target = &options->json}},
          .examples = {"trireme train configs/tiny-gpt2.toml --out /tmp/run",
                       "trireme train configs/demo.toml --set run.steps=100 --resume auto"},
          .run = [options](CommandIo& io) { return run_train(*options, io); }};
}

Command plan_command() {
  auto options = std::make_shared<PlanOptions>();
  return {.name = "plan",
          .summary = "Price a run without running it: parameters, FLOPs, bytes by class.",
          .details =
              "Exit code 3 where it does not fit, with the tensor and the moment that break it "
              "and the cheapest change that would fit.",
          .arguments = {run_config_argument(options->config.files)},
          .options = {set_option(options->config.overrides),
                      ranks_option(options->config.ranks),
                      {.name = "cluster",
                       .value_name = "FILE",
                       .doc = "price it on this hardware; by default this machine",
                       .target = &options->cluster,
                       .completion = Completion::File},
                      {.name = "search",
                       .doc = "find the fastest layouts of these ranks that fit: degrees, ZeRO, "
                              "schedule, micro-batch, recomputation",
                       .target = &options->search},
                      {.name = "explain",
                       .doc = "where time and memory go, and what other ways would cost; with "
                              "--search, why the other layouts are out",
                       .target = &options->explain},
                      {.name = "html",
                       .value_name = "FILE",
                       .doc = "write a page of it: timelines, memory and traffic of the ranks",
                       .target = &options->html,
                       .completion = Completion::File},
                      {.name = "rank",
                       .value_name = "R",
                       .doc = "print one rank alone, as JSON: an element of \"ranks\"",
                       .target = &options->rank},
                      json_option(options->json)},
          .examples =
              {"trireme plan configs/tiny-gpt2.toml --set model.preset=gpt2-1.5b",
               "trireme plan configs/tiny-gpt2.toml --cluster clusters/dgx-a100-80g.toml "
               "--explain",
               "trireme plan my.toml --ranks 256 --search --cluster clusters/dgx-a100-80g.toml"},
          .run = [options](CommandIo& io) { return run_plan(*options, io); }};
}

Command generate_command() {
  auto options = std::make_shared<GenerateOptions>();
  return {
      .name = "generate",
      .summary = "Continue a prompt with a trained model.",
      .options = {{.name = "checkpoint",
                   .letter = 'm',
                   .value_name = "DIR",
                   .doc = "a checkpoint, or a run directory: its newest one",
                   .target = &options->checkpoint,
                   .completion = Completion::Folder},
                  {.name = "prompt",
                   .letter = 'p',
                   .value_name = "TEXT",
                   .doc = "what is continued",
                   .target = &options->prompt},
                  {.name = "file",
                   .letter = 'f',
                   .value_name = "FILE",
                   .doc = "read the prompt from a file, or - for standard input",
                   .target = &options->prompt_file,
                   .completion = Completion::File},
                  {.name = "tokens",
                   .letter = 'n',
                   .value_name = "N",
                   .doc = "tokens to draw",
                   .target = &options->num_tokens},
                  {.name = "temp",
                   .value_name = "T",
                   .doc = "temperature; 0: always the likeliest token",
                   .target = &options->temperature},
                  {.name = "top-k",
                   .value_name = "K",
                   .doc = "only the K likeliest tokens; 0: all",
                   .target = &options->top_k},
                  {.name = "top-p",
                   .value_name = "P",
                   .doc = "only the likeliest tokens that together have probability P",
                   .target = &options->top_p},
                  {.name = "seed",
                   .letter = 's',
                   .value_name = "N",
                   .doc = "of the draws: the same seed gives the same text",
                   .target = &options->seed},
                  threads_option(options->threads)},
      .examples = {"trireme generate --checkpoint runs/demo -p 'It is a truth' -n 100 --temp 0.8"},
      .run = [options](CommandIo& io) -> Result<int> {
        if (options->checkpoint.empty()) {
          return Error{
              ErrorKind::Usage,
              "--checkpoint is missing: a run directory or a checkpoint, such as --checkpoint "
              "runs/demo"};
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
      .summary = "Make a checkpoint of another program's model.",
      .details = "Reads it back and compares weights and logits, bit for bit.",
      .arguments =
          {{.name = "DIR_OR_FILE",
            .doc =
                "a Hugging Face folder of GPT-2, Llama or Mixtral, a GGUF file, or a .bin of llm.c",
            .target = &options->path,
            .completion = Completion::File}},
      .options = {{.name = "out",
                   .letter = 'o',
                   .value_name = "CHECKPOINT",
                   .doc = "the checkpoint's folder",
                   .target = &options->out,
                   .completion = Completion::Folder},
                  {.name = "trainable",
                   .doc = "with AdamW's state at its beginning: train --resume goes on from here",
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
  return {.name = "export",
          .summary = "Write a checkpoint's model for another program.",
          .details =
              "Reads it back and compares weights and logits. What the format cannot hold is "
              "refused with exit code 3.",
          .arguments = {{.name = "CHECKPOINT",
                         .doc = "a checkpoint, or a run directory: its newest one",
                         .target = &options->path,
                         .completion = Completion::Folder}},
          .options = {{.name = "format",
                       .value_name = "FORMAT",
                       .doc = "a Hugging Face folder, a GGUF file for llama.cpp, or llm.c's .bin",
                       .target = &options->format,
                       .choices = {"hf", "gguf", "llmc"}},
                      {.name = "dtype",
                       .value_name = "DTYPE",
                       .doc = "of the matrices in the file; q8_0 for GGUF alone",
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
          .summary = "Print the logits behind each of a few tokens, to compare programs by.",
          .arguments = {{.name = "MODEL",
                         .doc = "a checkpoint, a run directory, or another program's model",
                         .target = &options->path,
                         .completion = Completion::File}},
          .options = {{.name = "tokens",
                       .value_name = "LIST",
                       .doc = "numbers between spaces or commas",
                       .target = &options->tokens},
                      threads_option(options->threads)},
          .examples = {"trireme checkpoint logits runs/demo --tokens 1,2,3"},
          .run = [options](CommandIo& io) { return run_checkpoint_logits(*options, io); }};
}

}  // namespace

Command checkpoint_command() {
  const auto subcommand = [](const char* name, const char* summary, auto run) -> Command {
    auto options = std::make_shared<CheckpointOptions>();
    return {.name = name,
            .summary = summary,
            .arguments = {{.name = "DIR",
                           .doc = "a checkpoint, or a run directory: its newest one",
                           .target = &options->path,
                           .completion = Completion::Folder}},
            .options = {json_option(options->json)},
            .run = [options, run](CommandIo& io) { return run(*options, io); }};
  };
  return {
      .name = "checkpoint",
      .summary = "Look into checkpoints; bring them from other programs and to them.",
      .subcommands = {
          subcommand("inspect", "List what a checkpoint holds.", run_checkpoint_inspect),
          subcommand("verify", "Read every byte and check every checksum.", run_checkpoint_verify),
          checkpoint_import_command(), checkpoint_export_command(), checkpoint_logits_command()}};
}

Command report_command() {
  auto options = std::make_shared<ReportOptions>();
  return {.name = "report",
          .summary = "Write report.html of a run: one file that opens anywhere.",
          .details =
              "With --compare one page about several runs: curves over each other, key "
              "numbers, and the configuration keys that differ.",
          .arguments = {{.name = "RUN_DIR",
                         .doc = "the run directory; several with --compare",
                         .target = &options->run_dirs,
                         .completion = Completion::Folder}},
          .options = {{.name = "compare",
                       .doc = "lay several runs over each other",
                       .target = &options->compare},
                      {.name = "out",
                       .value_name = "FILE",
                       .doc = "by default report.html in the run directory, or comparison.html in "
                              "the first one",
                       .target = &options->out,
                       .completion = Completion::File}},
          .examples = {"trireme report runs/demo", "trireme report --compare runs/a runs/b"},
          .run = [options](CommandIo& io) { return run_report(*options, io); }};
}

namespace {

Command config_show_command() {
  auto options = std::make_shared<ConfigShowOptions>();
  return {.name = "show",
          .summary = "Print the configuration in force, every key with its value.",
          .arguments = {run_config_argument(options->config.files, /*required=*/false)},
          .options = {set_option(options->config.overrides), ranks_option(options->config.ranks),
                      json_option(options->json)},
          .run = [options](CommandIo& io) { return run_config_show(*options, io); }};
}

Command config_explain_command() {
  auto options = std::make_shared<ConfigExplainOptions>();
  return {.name = "explain",
          .summary = "Say where each value comes from, what it replaces, and what follows from it.",
          .details =
              "Of a key, such as parallel.tp: what it is for, what it takes and what it can "
              "change; with files beside it, its value in them.",
          .arguments = {{.name = "RUN.toml",
                         .doc = "the configuration; several are layered, later wins; or a key",
                         .target = &options->config.files,
                         .required = false,
                         .completion = Completion::File}},
          .options = {set_option(options->config.overrides),
                      ranks_option(options->config.ranks),
                      {.name = "all", .doc = "keys at their default too", .target = &options->all}},
          .examples = {"trireme config explain configs/demo.toml",
                       "trireme config explain parallel.tp"},
          .run = [options](CommandIo& io) { return run_config_explain(*options, io); }};
}

Command config_diff_command() {
  auto options = std::make_shared<ConfigDiffOptions>();
  return {.name = "diff",
          .summary = "List the keys in which two configurations differ, and what that can change.",
          .arguments = {{.name = "A.toml B.toml",
                         .doc = "with one file, it is compared with itself under --set",
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
          .summary = "Look at configurations.",
          .subcommands = {config_show_command(), config_explain_command(), config_diff_command(),
                          config_docs_command()}};
}

Command doctor_command(const Environment& environment) {
  auto options = std::make_shared<DoctorOptions>();
  options->search_path = environment.path;
  return {.name = "doctor",
          .summary = "Look at this machine: what it offers, what is missing, how to get it.",
          .options = {json_option(options->json)},
          .run = [options](CommandIo& io) { return run_doctor(*options, io); }};
}

Command command_table(const Environment& environment) {
  return {.name = "trireme",
          .summary = "Train large language models on many devices.",
          .details = "Standard output carries data, standard error progress and logs.",
          .subcommands = {train_command(), plan_command(), generate_command(), schedule_command(),
                          tokenizer_command(), data_command(), checkpoint_command(),
                          bench_command(), calibrate_command(), report_command(), config_command(),
                          doctor_command(environment)}};
}

}  // namespace trireme
