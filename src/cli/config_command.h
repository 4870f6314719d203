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
// Prints the resolved configuration as TOML that gives the same configuration when it is read.
Result<int> run_config_show(const ConfigShowOptions& options, CommandIo& io);

struct ConfigExplainOptions {
  RunConfigOptions config;
  bool all = false;  // also prints default values
};
// Prints where every value comes from, what it replaced, and what is derived from it. If keys are
// among the files, prints only these keys and what they are for.
Result<int> run_config_explain(const ConfigExplainOptions& options, CommandIo& io);

struct ConfigDiffOptions {
  RunConfigOptions config;  // two files; the overrides apply to the second
};
// Prints the keys in which two configurations differ, and whether that can change results.
Result<int> run_config_diff(const ConfigDiffOptions& options, CommandIo& io);

// True for "parallel.tp", correct or misspelt; false for files such as "run.toml" and "my/model.x".
bool looks_like_key(const std::string& word);

// Returns the row of docs/configuration.md about a key, for a terminal. An unknown key is an error.
Result<std::string> key_text(const std::string& key);

// Returns docs/configuration.md, made from the table of fields.
std::string configuration_markdown();

}  // namespace trireme
