#pragma once

#include <string>

#include "base/result.h"
#include "cli/command_io.h"
#include "cli/options.h"
#include "cli/run_config_options.h"
#include "compile/run_plan.h"

namespace trireme {

// `plan --from TRAINER FILE` and `plan --export TRAINER -o FILE`.
struct PlanJobOptions {
  std::string from;       // the trainer whose job is read; "": none
  std::string from_file;  // "": the arguments behind -- are the job
  std::string to;         // the trainer for which the layout is written; "": none
  std::string out;        // "": standard output
};

Option from_option(PlanJobOptions& options);
Option export_option(PlanJobOptions& options);
Option job_out_option(PlanJobOptions& options);

// The options of a job as a user would type them: `before` the --set of a layout, and `behind` it.
struct JobWords {
  RunConfigOptions config;  // the options without the arguments of the job
  std::string before;       // "--from megatron train.sh", or ""
  std::string behind;       // " -- --num-layers 24", or ""
};
JobWords job_words(const RunConfigOptions& config, const PlanJobOptions& options);

// Loads RUN.toml as other commands do, and lays what the job says over it. Prints on `err` what of
// the job is priced differently and what has no meaning for a plan.
Result<LoadedConfig> load_plan_config(const RunConfigOptions& config, const PlanJobOptions& options,
                                      bool lays_out_anew, const CommandIo& io);

// True if the exported layout is printed in place of the plan.
bool prints_export(const PlanJobOptions& options);

// Writes the plan's layout for the other trainer, if one is asked for.
Status write_export(const PlanJobOptions& options, const RunPlan& plan, CommandIo& io);

}  // namespace trireme
