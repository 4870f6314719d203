#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/hashed_copy.h"
#include "checkpoint/save.h"

namespace trireme {

class ThreadTeam;

// The shard that a rank keeps in memory of each checkpoint: a header and a copy of every piece,
// whose places never change. Whoever has the data in a cache may make copies before complete().
class StateShard {
 public:
  // The data of the pieces are borrowed; null: only bytes() is wanted. Long pieces are cut, so that
  // threads share them; their parts are neighbours in the shard, too.
  StateShard(std::span<const TensorPiece> pieces, int rank);

  int64_t bytes() const { return bytes_; }  // 0: the rank has no pieces
  const std::string& file() const { return file_; }
  // Their offsets count from the start of the shard.
  std::span<HashedCopy> copies() { return copies_; }
  // The copies are those of an older state.
  void forget_copies();
  // Makes the copies that are missing with all threads, and writes the header. `shard` is the
  // memory of the shard. If its header is there, this object has completed it before, so it has
  // the constant copies.
  void complete(std::span<std::byte> shard, ThreadTeam& team);
  // Once all copies are made.
  IndexPart index_part() const;
  // The same, but every slice has the number of its copy in place of its checksum.
  IndexPart numbered_part() const;

 private:
  template <typename Checksum>
  IndexPart make_part(Checksum&& checksum) const;

  std::string file_;
  std::vector<TensorPiece> pieces_;  // in the order of the shard
  std::string header_;
  uint64_t header_checksum_ = 0;
  std::vector<HashedCopy> copies_;  // [piece]
  std::vector<size_t> by_size_;     // the longest first
  int64_t bytes_ = 0;
};

}  // namespace trireme
