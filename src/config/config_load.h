#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/config_toml.h"
#include "spec/run_config.h"
#include "spec/run_config_validate.h"

namespace trireme {

struct ConfigRequest {
  std::vector<std::string> files;          // layered: later wins
  std::vector<std::string> overrides;      // of --set, above the files
  std::vector<std::string> model_folders;  // where presets lie besides ./models and near the files
  std::optional<int> ranks;                // derives parallel.dp where nobody sets it
  std::string ranks_option = "--ranks";    // what has said so
  bool lays_out_anew = false;  // how ranks share the work may be what it may not be in a run
};

struct LoadedConfig {
  RunConfig config;
  std::string preset;              // "" or the model.preset that was read
  std::vector<std::string> files;  // what was read, lowest layer first, the preset's file included
  // What was written for a key, the value in force last. Keys at their default are absent.
  std::map<std::string, std::vector<ConfigAssignment>> history;

  // "configs/run.toml:12", "--set ...", or "default".
  std::string where(const std::string& key) const;
  // The same error; where it begins with a key that was written, "parallel.tp = 3 must ...", the
  // place stands before it.
  Error located(const Error& error) const;
};

// Reads, layers and validates. One error names every problem, each with its file and line.
Result<LoadedConfig> load_config(const ConfigRequest& request);

// The same for one text, such as the config.resolved.toml of a checkpoint.
Result<LoadedConfig> load_config_text(std::string_view text, const std::string& source,
                                      const std::vector<std::string>& model_folders,
                                      const std::vector<std::string>& overrides = {});

// The text of a TOML file; one that is not there is wrong usage, and its nearest neighbour is
// named.
Result<std::string> read_config_file(const std::string& path);

// The names of the presets in these folders, sorted.
std::vector<std::string> preset_names(const std::vector<std::string>& folders);

}  // namespace trireme
