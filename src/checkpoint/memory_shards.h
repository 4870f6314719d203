#pragma once

#include <array>
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
// are exchanged between the two mappings, so the state always has the same addresses.
class MemoryShards {
 public:
  // `root` is the folder of the checkpoints. Files of other objects must have other numbers.
  MemoryShards(std::string root, int rank, uint64_t number);
  ~MemoryShards();  // checkpoints keep their shards
  MemoryShards(const MemoryShards&) = delete;
  MemoryShards& operator=(const MemoryShards&) = delete;

  // Makes two files of `bytes` bytes, and returns the memory in which the state lies from now on.
  // Fails if the system has too little memory or cannot exchange pages.
  Result<std::span<std::byte>> hold_state(int64_t bytes);

  // Returns the memory for the next shard, which the caller writes. It is that of the state, unless
  // this is the newest committed checkpoint or no state is held. Otherwise it belonged to the shard
  // before the newest one, which is removed from its checkpoint. A second call returns the same.
  Result<std::span<std::byte>> begin(int64_t bytes);
  // What was written to the memory of begin() is the newest shard, and the state if one is held,
  // which keeps its addresses.
  Status take();
  // Gives the newest shard its name in the folder of the checkpoint that is being made.
  Status finish(const std::string& folder, const std::string& name);
  // Tells this object that the checkpoint of the newest shard is complete on all hosts, and the new
  // name of its folder.
  void note_committed(const std::string& folder);
  // Tells it that this checkpoint was removed, so the next shard may be written in its place.
  void forget_committed() { committed_ = -1; }

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
  Status exchange_pages();

  std::array<File, 2> files_;
  int newest_ = 0;
  int begun_ = 1;
  int committed_ = -1;
  // Three places of one length, if a state is held. The third one is used to exchange pages.
  std::byte* reserved_ = nullptr;
  int64_t reserved_bytes_ = 0;
  std::byte* third_ = nullptr;
};

// Removes the files that ranks which have ended have left in a folder; checkpoints keep their
// shards.
void remove_memory_shards(const std::string& root);

}  // namespace trireme
