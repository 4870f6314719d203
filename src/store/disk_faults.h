#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"
#include "erasure/reed_solomon.h"

namespace trireme {

enum class DiskCall { Create, Write, Sync, SyncFolder, Rename, Remove, Read };

// Lets tests make calls to a disk fail. Any thread may call it.
class DiskFaults {
 public:
  virtual ~DiskFaults() = default;
  // Is called before every call to the disk, which returns its error if there is one. It can make a
  // write shorter by a smaller `bytes`; then the write fails after these bytes.
  virtual Status before(DiskCall call, const std::string& path, size_t& bytes) = 0;
  // Is called with the chunks of every block that was encoded, and can change them as a wrong
  // encoder would, with their checksums.
  virtual void after_encoding(std::span<Block> chunks) { static_cast<void>(chunks); }
};

}  // namespace trireme
