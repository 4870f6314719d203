#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace trireme {

// The shards of one rank in the memory of its host. Two files stay mapped and take turns, so
// writing a checkpoint is a copy: making a file in memory and removing it take several times as
// long. The files have names of their own beside the checkpoints, which link to them.
class MemoryShards {
 public:
  // `root` is the folder of the checkpoints. Files of other objects must have other numbers.
  MemoryShards(std::string root, int rank, uint64_t number);
  ~MemoryShards();  // checkpoints keep their shards
  MemoryShards(const MemoryShards&) = delete;
  MemoryShards& operator=(const MemoryShards&) = delete;

  // Returns the memory for the shard `name` of `bytes` bytes; the caller writes it and then calls
  // finish(). `folder` is the folder of the checkpoint that is being made. The memory belonged to
  // the shard before the previous one, which is removed from its checkpoint.
  Result<std::span<std::byte>> begin(const std::string& folder, const std::string& name,
                                     int64_t bytes);
  // Gives the shard its name in the folder, after the caller has written it.
  Status finish();
  // Tells this object the new name of the folder of the newest shard.
  void note_committed(const std::string& folder) { current().folder = folder; }

 private:
  struct File {
    std::string path;
    std::string folder;  // of the checkpoint that links to it; "": none
    std::string name;    // in this folder
    std::byte* bytes = nullptr;
    int64_t size = 0;
  };

  File& current() { return files_[size_t(turn_)]; }
  Status make(File& file, int64_t bytes) const;
  static void remove(File& file);

  std::array<File, 2> files_;
  int turn_ = 0;
};

// Removes the files that ranks which have ended have left in a folder; checkpoints keep their
// shards.
void remove_memory_shards(const std::string& root);

}  // namespace trireme
