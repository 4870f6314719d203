#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/held_part.h"
#include "checkpoint/load.h"

namespace trireme {

// Copies bytes from a file of one host to a file of another. `from` and `to` are numbers of current
// hosts, which may differ from those of a HostsRecord.
struct PartMove {
  int from = 0;
  int to = 0;
  std::string source;
  std::string target;
  int64_t source_offset = 0;
  int64_t target_offset = 0;
  int64_t bytes = 0;
  uint8_t coefficient = 1;  // of the product in GF(2^8) that reaches the target
  bool is_first = true;     // the target is overwritten; else the product is added to it
};

// The moves that make the blocks of one lane of a group's hosts into parity pieces. `file_of` and
// `bytes_of` describe the block of every member; members are the hosts of the moves. Targets must
// be empty or zero.
std::vector<PartMove> parity_moves(const ParityGroup& group, int lane,
                                   std::span<const std::string> file_of,
                                   std::span<const int64_t> bytes_of);

// How a checkpoint in the memory of hosts becomes whole again.
struct RebuildPlan {
  std::vector<PartMove> moves;           // they rebuild the lost shards
  std::map<std::string, int> rebuilt;    // each shard that the moves make, and its host
  std::map<std::string, int> holder_of;  // the host of every shard after the moves
};

// `holders` has one element for every current host. Returns an error, which names the hosts and the
// step, if a group has lost more than its code can rebuild.
Result<RebuildPlan> plan_rebuild(const HostsRecord& record, const CheckpointIndex& index,
                                 std::span<const HeldPart> holders);

// The same for one group, so that it can be rebuilt although another has lost too much.
Result<RebuildPlan> plan_group_rebuild(const HostsRecord& record, const CheckpointIndex& index,
                                       std::span<const HeldPart> holders, const ParityGroup& group);

// The ranges of bytes that a host needs of the shards, by file. The ranges of a file are in
// ascending order, with a gap between each two.
struct ByteRange {
  int64_t begin = 0;
  int64_t end = 0;
  bool operator==(const ByteRange&) const = default;
};
using NeededRanges = std::map<std::string, std::vector<ByteRange>>;

// Returns the ranges of all slices that overlap a request, as Checkpoint::read will read them.
NeededRanges needed_ranges(const CheckpointIndex& index, std::span<const TensorRequest> requests);
void merge_ranges(NeededRanges& ranges, const NeededRanges& more);
std::string print_ranges(const NeededRanges& ranges);
// Returns an error if a range does not lie in a shard of the index.
Result<NeededRanges> parse_ranges(std::string_view text, const CheckpointIndex& index);

// Brings every host the ranges that it needs, and the headers of all shards, by which they are
// opened. `needs` has one element for every current host.
std::vector<PartMove> fetch_moves(const CheckpointIndex& index,
                                  const std::map<std::string, int>& holder_of,
                                  std::span<const NeededRanges> needs);

}  // namespace trireme
