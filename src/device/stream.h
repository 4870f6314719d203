#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "device/thread_team.h"
#include "schema/workspace.h"

namespace trireme {

// Runs kernels in order. On the CPU a kernel has finished when its call returns.
class Stream {
 public:
  // Borrows both. `workspace` has kWorkspaceBytesPerThread for each thread, 64-byte aligned.
  Stream(ThreadTeam& team, std::span<std::byte> workspace) : team_(team), workspace_(workspace) {
    TRIREME_CHECK(int64_t(workspace.size()) >= team.size() * kWorkspaceBytesPerThread,
                  "the stream's workspace is too small for its team");
  }
  ThreadTeam& team() { return team_; }
  std::byte* workspace(int thread) { return workspace_.data() + thread * kWorkspaceBytesPerThread; }

 private:
  ThreadTeam& team_;
  std::span<std::byte> workspace_;
};

}  // namespace trireme
