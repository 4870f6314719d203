#pragma once

#include "device/buffer.h"
#include "device/stream.h"

namespace trireme {

// A stream with its own team and workspace, for work outside a training step.
class OwnStream {
 public:
  explicit OwnStream(int num_threads)
      : team_(num_threads),
        workspace_(Buffer::allocate(num_threads * kWorkspaceBytesPerThread)),
        stream_(team_, {static_cast<std::byte*>(workspace_.data()), size_t(workspace_.bytes())}) {}
  operator Stream&() { return stream_; }  // NOLINT

 private:
  ThreadTeam team_;
  Buffer workspace_;
  Stream stream_;
};

}  // namespace trireme
