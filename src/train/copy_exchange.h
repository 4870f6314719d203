#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/hashed_copy.h"
#include "checkpoint/checkpoint_index.h"
#include "checkpoint/state_shard.h"
#include "comm/group.h"

namespace trireme {

// What the ranks tell each other of a checkpoint in memory: whether each has made its copies, the
// file that has them, and their checksums. The places of all tensors in all shards are always the
// same, so the ranks exchange these once, and of every checkpoint only such words.
class CopyExchange {
 public:
  static constexpr int64_t kNoFile = -1;

  // Exchanges the places. Returns the index of all shards, in which every slice has the number of
  // its checksum in place of the checksum. All ranks call it, and the next functions.
  Result<IndexPart> plan(Group& ranks, const StateShard& state);
  // Exchanges the words of a checkpoint. Returns true if all ranks have made their copies.
  bool run(Group& ranks, bool is_copied, int64_t file, std::span<const HashedCopy> copies);

  // Of the last checkpoint: the checksums of all ranks, by number, and the file of a rank.
  const std::vector<uint64_t>& checksums() const { return checksums_; }
  int64_t file_of(int rank) const { return files_[size_t(rank)]; }

 private:
  std::vector<int64_t> own_, all_;
  std::vector<int64_t> counts_;  // [rank] number of words
  std::vector<uint64_t> checksums_;
  std::vector<int64_t> files_;  // [rank]
};

}  // namespace trireme
