#pragma once

#include <string>

#include "base/result.h"
#include "cli/command_io.h"
#include "cli/run_config_options.h"

namespace trireme {

struct ConfigShowOptions {
  RunConfigOptions config;
  bool json = false;
};
// The configuration in force, as TOML that reads back to it.
Result<int> run_config_show(const ConfigShowOptions& options, CommandIo& io);

struct ConfigExplainOptions {
  RunConfigOptions config;
  bool all = false;  // values at their default too
};
// Where every value comes from, what it replaced, and what is derived from it. With keys among
// the files, what these are for, and of them alone.
Result<int> run_config_explain(const ConfigExplainOptions& options, CommandIo& io);

struct ConfigDiffOptions {
  RunConfigOptions config;  // two files, the overrides applied to the second
};
// The keys in which two configurations differ, and whether that can change results.
Result<int> run_config_diff(const ConfigDiffOptions& options, CommandIo& io);

// "parallel.tp" is a key, right or wrong; "run.toml" and "my/model.x" are files.
bool looks_like_key(const std::string& word);

// The row of docs/configuration.md about a key, for a terminal; a key that is none is refused.
Result<std::string> key_text(const std::string& key);

// docs/configuration.md, from the table of fields.
std::string configuration_markdown();

}  // namespace trireme
