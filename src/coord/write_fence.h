#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "comm/tcp/socket.h"

namespace trireme {

// Keeps writers of old epochs out of a folder that several hosts write to. The newest epoch stands
// in the folder, in the file epoch.json. It assumes the same of the file system as FileCoord.
class WriteFence {
 public:
  explicit WriteFence(std::string folder) : folder_(std::move(folder)) {}

  // From its return on, nothing of an older epoch is published. A fence never sinks.
  Status raise(int64_t epoch, Deadline deadline) const;
  // Calls `publish`, such as the rename of a finished folder, if no epoch newer than `epoch` is
  // known here. The fence cannot be raised meanwhile, so `publish` must be short.
  Status publish(int64_t epoch, const std::function<Status()>& publish, Deadline deadline) const;
  // 0: it was never raised.
  Result<int64_t> epoch() const;

 private:
  std::string folder_;
};

}  // namespace trireme
