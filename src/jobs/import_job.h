#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/config_toml.h"
#include "jobs/trainer.h"
#include "schema/run_config.h"

namespace trireme {

// A job of another trainer to be read.
struct ImportRequest {
  JobTrainer trainer = JobTrainer::Megatron;
  std::string_view text;  // of the file
  std::string source;     // the file's name, for messages and, by its ending, for the form
  std::optional<int> ranks;
  RunConfig base;         // from RUN.toml and --set; its model and degrees fill what the job lacks
  bool has_base = false;  // a RUN.toml was named
};

// What a job says, in keys of RUN.toml. Each assignment remembers its place in the job, which a
// broken rule names later.
struct ImportedJob {
  std::string source;
  std::vector<ConfigAssignment> assignments;
  std::vector<std::string> notes;     // sentences: what is priced differently from what it says
  std::vector<std::string> not_used;  // settings that change neither memory nor time of a step
};

// A text that cannot be read is a Usage error. A setting that changes the layout and that we do not
// have is Infeasible. The message has a line for each: the place, the setting, and a remedy.
Result<ImportedJob> import_job(const ImportRequest& request);

// The same for the words of a command line, such as {"--num-layers", "24"}; only for Megatron-LM.
Result<ImportedJob> import_arguments(const std::vector<std::string>& words,
                                     const ImportRequest& request);

}  // namespace trireme
