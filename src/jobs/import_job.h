#pragma once

#include <cstdint>
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
  // Degrees and sizes of --set replace those of the job before it is read, so that what the job
  // derives from them follows: dp, the padded vocabulary, the stages.
  std::vector<ConfigAssignment> overrides;
  int64_t base_ranks_per_copy = 0;  // tp * pp * cp of RUN.toml without --set; 0: as in base
};

// True if --set gives this key.
bool is_overridden(const ImportRequest& request, std::string_view key);

// What a job says, in keys of RUN.toml. Each assignment remembers its place in the job, which a
// broken rule names later.
struct ImportedJob {
  std::string source;
  std::vector<ConfigAssignment> assignments;
  std::vector<std::string> notes;     // sentences: what is priced differently from what it says
  std::vector<std::string> not_used;  // settings that change neither memory nor time of a step
  // Settings that the trainer may have and that nothing is known about.
  std::vector<std::string> not_known;
};

// A text that cannot be read is a Usage error. A setting that changes the layout and that we do not
// have is Infeasible. The message has a line for each: the place, the setting, and a remedy.
Result<ImportedJob> import_job(const ImportRequest& request);

// The same for the words of a command line, such as {"--num-layers", "24"}; only for Megatron-LM.
Result<ImportedJob> import_arguments(const std::vector<std::string>& words,
                                     const ImportRequest& request);

}  // namespace trireme
