#include "cli/plan_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <span>

#include "base/file.h"
#include "base/input_limits.h"
#include "jobs/export_job.h"
#include "jobs/import_job.h"

namespace trireme {
namespace {

std::vector<std::string> names_of(std::span<const JobTrainer> trainers) {
  std::vector<std::string> names;
  for (const JobTrainer trainer : trainers) names.emplace_back(name_of(trainer));
  return names;
}

// `name` is one of the choices of the options.
JobTrainer trainer_of(const std::string& name) {
  return *std::find_if(std::begin(kTrainers), std::end(kTrainers) - 1,
                       [&](JobTrainer trainer) { return name_of(trainer) == name; });
}

// Words behind -- that belong to the job, which follow the files.
std::vector<std::string> arguments_of(const RunConfigOptions& config) {
  const auto first = std::find_if(config.files.begin(), config.files.end(),
                                  [](const std::string& word) { return word.starts_with("-"); });
  return {first, config.files.end()};
}

// The configuration without the job. Rules about the layout are not held against it, because the
// job may give another one.
Result<RunConfig> load_base(const RunConfigOptions& config, const CommandIo& io) {
  Result<LoadedConfig> loaded = load_config(config, io);
  if (loaded.ok()) return std::move(loaded->config);
  RunConfigOptions without_ranks = config;
  without_ranks.ranks.reset();
  loaded = load_config(without_ranks, io, true);
  if (loaded.ok()) return std::move(loaded->config);
  if (!config.files.empty()) return loaded.error();
  return RunConfig{};
}

bool is_degree(const ConfigAssignment& set) {
  return set.key == "parallel.tp" || set.key == "parallel.pp" || set.key == "parallel.cp";
}

// Assignments of --set that can be read; load_config refuses the others.
std::vector<ConfigAssignment> readable_overrides(const RunConfigOptions& config) {
  std::vector<ConfigAssignment> overrides;
  for (const std::string& text : config.overrides) {
    Result<ConfigAssignment> set = parse_override(text);
    if (set.ok()) overrides.push_back(std::move(*set));
  }
  return overrides;
}

// Ranks of a copy of the model before --set changes a degree.
int64_t base_ranks_per_copy(const RunConfigOptions& config, const RunConfig& base,
                            const CommandIo& io) {
  RunConfigOptions without = config;
  without.ranks.reset();
  std::erase_if(without.overrides, [](const std::string& text) {
    const Result<ConfigAssignment> set = parse_override(text);
    return set.ok() && is_degree(*set);
  });
  const Result<RunConfig> file = load_base(without, io);
  const ParallelConfig& degrees = file.ok() ? file->parallel : base.parallel;
  return int64_t{degrees.tp} * degrees.pp * degrees.cp;
}

Result<ImportedJob> read_job(const PlanJobOptions& options,
                             const std::vector<std::string>& arguments, ImportRequest request) {
  if (options.from_file.empty()) {
    if (arguments.empty()) {
      return usage(
          fmt::format("--from {}: name its file, or write its arguments behind --", options.from));
    }
    request.source = "argument";
    return import_arguments(arguments, request);
  }
  if (!arguments.empty()) {
    return usage(fmt::format("--from {} {}: name a file or write arguments behind --, not both",
                             options.from, options.from_file));
  }
  std::error_code ignored;
  if (!std::filesystem::exists(options.from_file, ignored)) {
    return usage(fmt::format("{}: no such file; name a job of {}", options.from_file,
                             title_of(request.trainer)));
  }
  TRIREME_TRY(text, read_text_file(options.from_file, limits::kConfigFileBytes));
  request.text = text;
  request.source = options.from_file;
  return import_job(request);
}

}  // namespace

Option from_option(PlanJobOptions& options) {
  return {.name = "from",
          .value_name = "TRAINER FILE",
          .doc =
              "price a job of another trainer: a launch script or file of arguments (megatron; "
              "also -- ARGS), FILE.toml or .json (torchtitan), ds_config.json after a RUN.toml "
              "with the model (deepspeed); of",
          .target = &options.from,
          .choices = names_of(kReadTrainers),
          .second = &options.from_file};
}

Option export_option(PlanJobOptions& options) {
  return {.name = "export",
          .value_name = "TRAINER",
          .doc =
              "write the layout for another trainer; a setting that it cannot express is "
              "refused; for",
          .target = &options.to,
          .choices = names_of(kTrainers)};
}

Option job_out_option(PlanJobOptions& options) {
  return {.name = "out",
          .letter = 'o',
          .value_name = "FILE",
          .doc = "the file of --export; without it, print the layout in place of the plan",
          .target = &options.out,
          .completion = Completion::File};
}

JobWords job_words(const RunConfigOptions& config, const PlanJobOptions& options) {
  if (options.from.empty()) return {config, "", ""};
  const std::vector<std::string> arguments = arguments_of(config);
  JobWords words{config, "--from " + options.from, ""};
  words.config.files.resize(config.files.size() - arguments.size());
  if (!options.from_file.empty()) words.before += " " + options.from_file;
  if (!arguments.empty()) words.behind = fmt::format(" -- {}", fmt::join(arguments, " "));
  return words;
}

Result<LoadedConfig> load_plan_config(const RunConfigOptions& config, const PlanJobOptions& options,
                                      bool lays_out_anew, const CommandIo& io) {
  if (!options.out.empty() && options.to.empty()) {
    return usage("-o " + options.out + ": is the file of --export; add --export TRAINER");
  }
  if (options.from.empty()) {
    if (config.files.empty()) return usage("RUN.toml is missing");
    return load_config(config, io, lays_out_anew);
  }
  RunConfigOptions files = config;
  const std::vector<std::string> arguments = arguments_of(config);
  files.files.resize(config.files.size() - arguments.size());
  TRIREME_TRY(base, load_base(files, io));
  TRIREME_TRY(job, read_job(options, arguments,
                            {.trainer = trainer_of(options.from),
                             .ranks = config.ranks,
                             .base = base,
                             .has_base = !files.files.empty(),
                             .overrides = readable_overrides(config),
                             .base_ranks_per_copy = base_ranks_per_copy(files, base, io)}));
  for (const std::string& note : job.notes) io.err << "note: " << note << "\n";
  for (const std::string& setting : job.not_used) io.err << "not used: " << setting << "\n";
  for (const std::string& setting : job.not_known) io.err << "not known: " << setting << "\n";
  return load_config({.files = files.files,
                      .overrides = config.overrides,
                      .model_folders = io.model_folders,
                      .ranks = config.ranks,
                      .ranks_option = config.ranks_option,
                      .imported = std::move(job.assignments),
                      .imported_from = job.source,
                      .lays_out_anew = lays_out_anew});
}

bool prints_export(const PlanJobOptions& options) {
  return !options.to.empty() && options.out.empty();
}

Status write_export(const PlanJobOptions& options, const RunPlan& plan, CommandIo& io) {
  if (options.to.empty()) return Done{};
  ExportRequest request{
      .trainer = trainer_of(options.to), .config = plan.config, .path = options.out};
  request.config.model.vocab_size = plan.model.vocab_size;
  for (const StageSpec& stage : plan.stages) request.stage_layers.push_back(stage.num_layers);
  TRIREME_TRY(job, export_job(request));
  for (const std::string& note : job.notes) io.err << "note: " << note << "\n";
  if (options.out.empty()) {
    io.out << job.files.front().text;
    return Done{};
  }
  TRIREME_TRY_DONE(make_folders_of(options.out));
  for (const ExportedFile& file : job.files) {
    TRIREME_TRY_DONE(write_file_atomically(file.path, file.text));
    io.err << "wrote " << file.path << "\n";
  }
  return Done{};
}

}  // namespace trireme
