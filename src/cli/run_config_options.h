#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command_io.h"
#include "config/config_load.h"

namespace trireme {

// The configuration options of every command that takes a RUN.toml.
struct RunConfigOptions {
  std::vector<std::string> files;
  std::vector<std::string> overrides;
  std::optional<int> ranks;
  std::string ranks_option = "--ranks";  // the option or launcher that set the number of ranks
};

inline Result<LoadedConfig> load_config(const RunConfigOptions& options, const CommandIo& io,
                                        bool lays_out_anew = false) {
  return load_config({.files = options.files,
                      .overrides = options.overrides,
                      .model_folders = io.model_folders,
                      .ranks = options.ranks,
                      .ranks_option = options.ranks_option,
                      .lays_out_anew = lays_out_anew});
}

}  // namespace trireme
