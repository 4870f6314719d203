#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/hosts_record.h"
#include "checkpoint/save.h"

namespace trireme {

// A shard in the memory of a host, and its name in a checkpoint.
struct NamedShard {
  std::string path;
  std::string name;
};

// Writes the part of one host of checkpoints in memory, one after the other. What is the same in
// all of them is made once: the index without its checksums, and the hashes of attached files.
// Nothing is synced, because memory does not outlive its machine.
class HostPartWriter {
 public:
  // `numbered`: the index of all ranks, see IndexTemplate.
  explicit HostPartWriter(const IndexPart& numbered) : index_(numbered) {}

  // The path of the temporary folder of a checkpoint. All ranks of a host know it, because only one
  // of them makes it.
  static std::string folder_of(const std::string& root, int64_t step);
  // Makes the temporary folder and the names of the shards in it.
  Status begin(const std::string& folder, std::span<const NamedShard> shards);
  // Writes everything else: attached files, the index, and the record, whose checksum of the index
  // is filled in. `checksums`: of the slices, by number.
  Status finish(const std::string& folder, const CheckpointInfo& info,
                std::span<const AttachedFile> attached, std::span<const uint64_t> checksums,
                HostsRecord record);

 private:
  Status attach(const std::string& folder, const AttachedFile& file);

  IndexTemplate index_;
  std::map<std::string, StoredFile> attached_;
  std::map<std::string, const char*> hashed_;  // where the content of a file lies that has a hash
};

}  // namespace trireme
