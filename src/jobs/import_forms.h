#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jobs/foreign_job.h"
#include "jobs/import_job.h"
#include "jobs/shell_words.h"

namespace trireme {

// Each of these functions reads the job of one trainer.
Result<ImportedJob> import_megatron(const ImportRequest& request);
Result<ImportedJob> import_megatron_words(const ShellCommand& words, const ImportRequest& request);
Result<ImportedJob> import_torchtitan(const ImportRequest& request);
Result<ImportedJob> import_deepspeed(const ImportRequest& request);

// The settings of a JSON or TOML text. Their keys are joined by dots: "zero_optimization.stage".
// Elements of arrays other than lists of names become "layers.0.attention", and "layers.#" is the
// length. Values that are null are left out.
Result<ForeignJob> read_json_job(std::string_view text, const std::string& source);
Result<ForeignJob> read_toml_job(std::string_view text, const std::string& source);

}  // namespace trireme
