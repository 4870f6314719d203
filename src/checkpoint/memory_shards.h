#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace trireme {

// The shards of one rank in the memory of its host. Two files stay mapped and take turns: making a
// file in memory and removing it take several times as long as a copy. The files have names of
// their own beside the checkpoints, which link to them.
//
// One of them may also hold the state with which the rank trains (hold_state). Then an update reads
// this file and writes the other one, and the former state is a checkpoint without a copy. Pages
// are exchanged between the two mappings, so the state always has the same addresses. With a third
// file, updates can go on while the newest shard is still being copied to other hosts: neither its
// file nor that of the committed checkpoint is written.
class MemoryShards {
 public:
  // `root` is the folder of the checkpoints. Files of other objects must have other numbers.
  MemoryShards(std::string root, int rank, uint64_t number);
  ~MemoryShards();  // checkpoints keep their shards
  MemoryShards(const MemoryShards&) = delete;
  MemoryShards& operator=(const MemoryShards&) = delete;

  // The path of a file of the object that was made with these arguments.
  static std::string path_of(const std::string& root, int rank, uint64_t number, int file);

  // Makes two files of `bytes` bytes, and returns the memory in which the state lies from now on.
  // Fails if the system has too little memory or cannot exchange pages.
  Result<std::span<std::byte>> hold_state(int64_t bytes);
  // Makes the third file. Another thread may call it during a step. An error leaves two files.
  Status add_file();
  // True if begin() may be called while the newest shard is pending.
  bool may_be_pending() const;

  // Returns the memory for the next shard, which the caller writes. It is that of the state, unless
  // this is a pending or the newest committed checkpoint, or no state is held. Otherwise it
  // belonged to an older shard, which is removed from its checkpoint. A second call returns the
  // same.
  Result<std::span<std::byte>> begin(int64_t bytes);
  // Takes the memory of begin() as the newest shard. If state is held, it becomes
  // the state, which keeps its addresses.
  Status take();
  // The newest shard becomes that of the checkpoint which is being made in this folder. Returns the
  // number of its file, to which the checkpoint must link by this name.
  int set_pending(const std::string& folder, const std::string& name);
  // The checkpoint of the pending shard is complete on all hosts, and its folder has this name.
  void note_committed(const std::string& folder);
  // There will be no checkpoint of the pending shard. Removes its name.
  void drop_pending();
  // All checkpoints were removed, so the next shard may be written in the place of any of them.
  void forget_checkpoints();

 private:
  struct File {
    std::string path;
    std::string folder;  // of the checkpoint that links to it; "": none
    std::string name;    // in this folder
    std::byte* bytes = nullptr;
    int64_t size = 0;
  };

  // Maps the file at this address, or anywhere if it is null.
  static Status make(File& file, int64_t bytes, std::byte* at);
  static void remove(File& file);
  static void unlink_from_checkpoint(File& file);
  Status exchange_pages(File& a, File& b);
  int next_file() const;

  std::array<File, 3> files_;
  std::atomic<int> num_files_ = 2;
  int newest_ = 0;
  int begun_ = 1;
  int pending_ = -1;
  int committed_ = -1;
  // Four places of one length, if a state is held. The last one is used to exchange pages.
  std::byte* reserved_ = nullptr;
  int64_t reserved_bytes_ = 0;
  std::byte* first_ = nullptr;
  std::byte* spare_ = nullptr;
};

// Removes the files that ranks which have ended have left in a folder; checkpoints keep their
// shards.
void remove_memory_shards(const std::string& root);

}  // namespace trireme
