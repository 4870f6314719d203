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
// Prints the resolved configuration as TOML (or JSON) that can be read back.
Result<int> run_config_show(const ConfigShowOptions& options, CommandIo& io);

struct ConfigExplainOptions {
  RunConfigOptions config;
  bool all = false;  // also keys that have their default value
};
// Prints where every value comes from, what it replaced, and what is derived from it. If keys are
// among the files, it explains these keys, and prints only their values.
Result<int> run_config_explain(const ConfigExplainOptions& options, CommandIo& io);

struct ConfigDiffOptions {
  RunConfigOptions config;  // two files; the overrides apply to the second
};
// Prints the keys in which two configurations differ, and what the difference can change.
Result<int> run_config_diff(const ConfigDiffOptions& options, CommandIo& io);

// "parallel.tp" looks like a key, whether it exists or not; "run.toml" and "my/model.x" are files.
bool looks_like_key(const std::string& word);

// Returns the explanation of a key for a terminal. An unknown key is an error.
Result<std::string> key_text(const std::string& key);

// Returns the text of docs/configuration.md, made from the table of fields.
std::string configuration_markdown();

}  // namespace trireme
