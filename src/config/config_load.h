#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/config_toml.h"
#include "schema/run_config.h"
#include "schema/run_config_validate.h"

namespace trireme {

struct ConfigRequest {
  std::vector<std::string> files;      // layers; later files win
  std::vector<std::string> overrides;  // values of --set, which win over files
  // Folders of presets besides ./models and those near the files.
  std::vector<std::string> model_folders;
  std::optional<int> ranks;              // derives parallel.dp if it is not set
  std::string ranks_option = "--ranks";  // the option or launcher that set `ranks`
  // What a job of another trainer says: a layer above the files and below the overrides.
  std::vector<ConfigAssignment> imported;
  std::string imported_from;   // the name of that job
  bool lays_out_anew = false;  // skips rules about the layout of ranks, which will be chosen anew
};

struct LoadedConfig {
  RunConfig config;
  std::string preset;  // "", or the model.preset that was read
  // Files that were read, lowest layer first, including the preset's file.
  std::vector<std::string> files;
  // All values written for a key; the last one applies. Keys with their default are absent.
  std::map<std::string, std::vector<ConfigAssignment>> history;

  // Returns "configs/run.toml:12", "--set ...", or "default".
  std::string where(const std::string& key) const;
  // Returns the same error. If it begins with a key that was written, such as "parallel.tp = 3 must
  // ...", the place is put before it.
  Error located(const Error& error) const;
};

// Reads, layers and validates. One error names every problem, each with its file and line.
Result<LoadedConfig> load_config(const ConfigRequest& request);

// Does the same for a single text, such as the config.resolved.toml of a checkpoint.
Result<LoadedConfig> load_config_text(std::string_view text, const std::string& source,
                                      const std::vector<std::string>& model_folders,
                                      const std::vector<std::string>& overrides = {});

// Returns the text of a TOML file. A missing file is a Usage error, which suggests the nearest
// name.
Result<std::string> read_config_file(const std::string& path);

// Returns the names of the presets in these folders, sorted.
std::vector<std::string> preset_names(const std::vector<std::string>& folders);

}  // namespace trireme
