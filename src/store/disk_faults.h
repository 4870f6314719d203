#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace trireme {

enum class DiskCall { Create, Write, Sync, SyncFolder, Rename, Remove, Read };

// Tests let calls fail with it as a disk does. Without it, nothing but the disk makes them fail.
// Any thread may call it.
class DiskFaults {
 public:
  virtual ~DiskFaults() = default;
  // Called before every call to the disk. An error is what the call returns. A write may be made
  // shorter by `bytes`; then the call fails after these bytes.
  virtual Status before(DiskCall call, const std::string& path, size_t& bytes) = 0;
};

}  // namespace trireme
