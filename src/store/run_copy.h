#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/result.h"
#include "store/put_files.h"
#include "store/store.h"

namespace trireme {

// A copy of a run directory in a store, below a path: its files, and the checkpoints in its folder
// checkpoints/. Each update makes the copy that of one moment: a new checkpoint becomes visible as
// a whole or not at all, and one that the run has removed is removed.
class RunCopy {
 public:
  // `folder` is the run directory, `path` its name in the store.
  RunCopy(std::string folder, std::string path)
      : folder_(std::move(folder)), path_(std::move(path)) {}

  // Copies checkpoints that the store does not have or has with other bytes, and files that have
  // changed since the last update. A checkpoint that is removed meanwhile is left out.
  Status update(Store& store);

  const std::string& folder() const { return folder_; }
  const std::string& path() const { return path_; }

 private:
  struct Stamp {
    int64_t bytes = 0;
    int64_t modified_ns = 0;
    bool operator==(const Stamp&) const = default;
  };
  Status put_checkpoint(Store& store, const std::string& name);
  // Puts a checkpoint again unless the index in the store has this checksum and is that of the run.
  Status replace_checkpoint(Store& store, const std::string& name,
                            std::optional<uint64_t> index_checksum);
  Status put_changed(Store& store);
  Status remove(Store& store, const std::string& name);

  std::string folder_;
  std::string path_;
  std::map<std::string, Stamp> copied_;  // files of the run directory, by name
};

// True if the store has files of a run at this path.
Result<bool> has_run(Store& store, const std::string& path);

// If the copy has a newer checkpoint than the run directory, writes into it what it lacks: first
// the checkpoints, each of which appears as a whole, and then the files of the run, which are
// replaced. Returns the step of the newest one; -1: nothing was written.
Result<int64_t> fetch_newer_run(Store& store, const std::string& path, const std::string& folder);

}  // namespace trireme
