#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trireme {

struct RetentionOptions {
  int64_t keep = 3;        // verified checkpoints that stay; 0: all
  int64_t keep_every = 0;  // those of multiples of so many steps stay, too; 0: none
};

struct DamagedCheckpoint {
  int64_t step = 0;
  std::string problem;
};

struct RetentionResult {
  std::vector<DamagedCheckpoint> damaged;
  std::vector<int64_t> verified;  // steps, the newest first
  std::vector<int64_t> removed;
};

// Reads back the checkpoints in `root` from `step` backwards until `keep` of them have the
// checksums of what was written, and only then removes older ones. A damaged one does not count; it
// goes once it is older than those that are kept, like any other. Checkpoints of later steps, left
// by a run that went further, are not touched. Where nothing can go, `step` alone is read back.
// `should_stop` ends it before anything more is removed.
RetentionResult apply_retention(const std::string& root, int64_t step,
                                const RetentionOptions& options,
                                const std::function<bool()>& should_stop = {});

}  // namespace trireme
