#pragma once

#include <memory>
#include <string>

#include "store/chunk_target.h"
#include "store/store_peer.h"

namespace trireme {

// The chunks of a server that is another process. Every call has a deadline. If the server does not
// answer before it, a chunk counts as unreadable and a write fails.
class RemoteChunks : public ChunkTarget {
 public:
  // The server refuses requests that do not match it.
  struct Fence {
    uint64_t store = 0;
    uint64_t incarnation = 0;
    uint64_t epoch = 0;  // token of the maintainer; 0: a client that writes only its own blocks
  };
  RemoteChunks(std::shared_ptr<StorePeer> peer, Fence fence)
      : peer_(std::move(peer)), fence_(fence) {}

  Status write(ChunkName name, std::span<const std::byte> bytes, uint64_t checksum) override;
  ChunkRead read(ChunkName name, std::span<std::byte> bytes, uint64_t checksum) override;
  ChunkRead read_part(ChunkName name, const ChunkPart& part, std::span<std::byte> bytes) override;
  Status remove(ChunkName name) override;
  Result<std::vector<ChunkName>> list() override;
  // Does nothing, because the server does it when it starts.
  Result<int64_t> remove_unfinished() override { return 0; }

 private:
  StoreRequest request(StoreOp op, ChunkName name) const;

  const std::shared_ptr<StorePeer> peer_;
  const Fence fence_;
};

}  // namespace trireme
