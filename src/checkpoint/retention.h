#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trireme {

struct RetentionOptions {
  int64_t keep = 3;         // number of verified checkpoints to keep; 0: all
  int64_t keep_every = 0;   // also keeps checkpoints of multiples of this many steps; 0: none
  bool keeps_best = false;  // also keeps the intact checkpoint with the lowest validation loss
};

struct DamagedCheckpoint {
  int64_t step = 0;
  std::string problem;
};

struct RetentionResult {
  std::vector<DamagedCheckpoint> damaged;
  std::vector<int64_t> verified;  // steps, newest first
  std::vector<int64_t> removed;
};

// Removes old checkpoints in `root`. It first reads checkpoints back, from `step` backwards, until
// `keep` of them are intact. With `keeps_best` it also reads the best one back. A damaged
// checkpoint does not count towards `keep`; it is removed once it is older than those that are
// kept. Checkpoints of later steps, left by an earlier run that went further, are not touched. If
// nothing can be removed, only `step` is read back. If `should_stop` returns true, nothing more is
// removed.
RetentionResult apply_retention(const std::string& root, int64_t step,
                                const RetentionOptions& options,
                                const std::function<bool()>& should_stop = {});

}  // namespace trireme
