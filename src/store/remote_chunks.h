#pragma once

#include <memory>
#include <string>

#include "store/chunk_target.h"
#include "store/store_peer.h"

namespace trireme {

// The chunks of a server that is another process. A server that does not answer in time makes its
// chunks unreadable, and what is written to it an error.
class RemoteChunks : public ChunkTarget {
 public:
  struct Fence {
    uint64_t store = 0;
    uint64_t incarnation = 0;
    uint64_t epoch = 0;  // token of the maintainer; 0: a writer of its own blocks
  };
  RemoteChunks(std::shared_ptr<StorePeer> peer, Fence fence)
      : peer_(std::move(peer)), fence_(fence) {}

  Status write(ChunkName name, std::span<const std::byte> bytes, uint64_t checksum) override;
  ChunkRead read(ChunkName name, std::span<std::byte> bytes, uint64_t checksum) override;
  Status remove(ChunkName name) override;
  Result<std::vector<ChunkName>> list() override;
  // A server does this when it starts.
  Result<int64_t> remove_unfinished() override { return 0; }

 private:
  StoreRequest request(StoreOp op, ChunkName name) const;

  const std::shared_ptr<StorePeer> peer_;
  const Fence fence_;
};

}  // namespace trireme
