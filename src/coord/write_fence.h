#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "comm/tcp/socket.h"

namespace trireme {

// Keeps writers of old epochs out of a folder that several hosts write to. The file epoch.json in
// the folder has the newest epoch. The file system must have the same locks as for FileCoord.
class WriteFence {
 public:
  explicit WriteFence(std::string folder) : folder_(std::move(folder)) {}

  // Makes `epoch` the newest one, unless a newer one is known. After it has returned, nothing of an
  // older epoch is published.
  Status raise(int64_t epoch, Deadline deadline) const;
  // Calls `publish`, such as the rename of a finished folder, if no epoch newer than `epoch` is
  // known here. The fence cannot be raised meanwhile, so `publish` must be short.
  Status publish(int64_t epoch, const std::function<Status()>& publish, Deadline deadline) const;
  // Returns the newest epoch, or 0 if the fence was never raised.
  Result<int64_t> epoch() const;

 private:
  std::string folder_;
};

}  // namespace trireme
