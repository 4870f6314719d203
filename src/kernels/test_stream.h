#pragma once

#include "device/buffer.h"
#include "device/stream.h"

namespace trireme {

// A stream with its own team and workspace, for tests.
struct TestStream {
  explicit TestStream(int num_threads)
      : team(num_threads),
        workspace(Buffer::allocate(num_threads * kWorkspaceBytesPerThread)),
        stream(team, {static_cast<std::byte*>(workspace.data()), size_t(workspace.bytes())}) {}
  ThreadTeam team;
  Buffer workspace;
  Stream stream;
};

}  // namespace trireme
