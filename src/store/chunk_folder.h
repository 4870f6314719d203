#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "store/chunk_target.h"
#include "store/disk_faults.h"
#include "store/disk_file.h"

namespace trireme {

// The chunks in the folder of one disk. Each is a file with a header of 64 bytes, the bytes of the
// chunk, and the checksums of its pieces. Older files have none of these, so that such a chunk is
// read as a whole. A file that was not written to its end has a wrong checksum, so it counts as
// damaged.
class ChunkFolder : public ChunkTarget {
 public:
  ChunkFolder(std::string folder, uint64_t store, DiskFaults* faults)
      : folder_(std::move(folder)), store_(store), faults_(faults) {}

  Status write(ChunkName name, std::span<const std::byte> bytes, uint64_t checksum) override;
  ChunkRead read(ChunkName name, std::span<std::byte> bytes, uint64_t checksum) override;
  ChunkRead read_part(ChunkName name, const ChunkPart& part, std::span<std::byte> bytes) override;
  // Reads a chunk into `room` from the disk, not from the memory of the system, and compares it
  // with the checksum in its own header.
  ChunkRead check(ChunkName name, std::span<std::byte> room);
  Status remove(ChunkName name) override;
  Result<std::vector<ChunkName>> list() override;
  Result<int64_t> remove_unfinished() override;

  // The path of the file of a chunk.
  std::string path_of(ChunkName name) const;

 private:
  // Makes the folder of a chunk's file, so that it outlives a power cut.
  Status make_folder_of(const std::string& path);
  Status write_file(DiskFile& file, ChunkName name, std::span<const std::byte> bytes,
                    uint64_t checksum) const;
  struct OpenChunk;
  // Opens the file of a chunk and reads its header.
  ChunkRead open_file(ChunkName name, OpenChunk& chunk) const;
  // The same, and compares the header.
  ChunkRead open_chunk(ChunkName name, uint64_t bytes, uint64_t checksum, OpenChunk& chunk) const;
  ChunkRead compare_header(ChunkName name, uint64_t bytes, uint64_t checksum,
                           const OpenChunk& chunk) const;
  static ChunkRead read_whole(const OpenChunk& chunk, std::span<std::byte> bytes);
  Status for_each_file(const std::function<Status(const std::filesystem::path&)>& visit) const;

  std::mutex mutex_;  // of durable_folders_
  std::set<std::string> durable_folders_;
  std::atomic<uint64_t> num_writes_ = 0;
  std::string folder_;
  uint64_t store_;
  DiskFaults* faults_;
};

}  // namespace trireme
