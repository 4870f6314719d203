#pragma once

#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "checkpoint/hosts_record.h"

namespace trireme {

// What a host has of a checkpoint that several hosts keep in memory, as its checksums say.
struct HeldPart {
  int host = -1;             // in the record of the save; -1: nothing of it
  std::vector<bool> blocks;  // [lane]: true if the shard is intact, or if there is none
  std::vector<bool> rows;    // [lane * num_parity of the host's group + row]
};

// A part of a checkpoint whose record and index are intact. Shards and parity were not read yet.
struct FoundPart {
  std::string folder;
  HostsRecord record;
};

// Finds the parts of the job in a folder of a host's memory, the newest first. Parts of other jobs
// and parts whose record or index is damaged are left out; `tell` gets a sentence for the latter.
std::vector<FoundPart> find_parts(const std::string& root, uint64_t job,
                                  std::vector<std::string>& problems);

// Reads all bytes of the part and compares their checksums. `problems` gets a sentence for each
// shard and each parity file that is damaged or missing.
Result<HeldPart> check_part(const FoundPart& part, int num_threads, Progress* progress,
                            std::vector<std::string>& problems);

// Checks one shard against the index: the length, the header and all slices.
Status check_shard(const std::string& path, const std::string& file, const CheckpointIndex& index,
                   Progress* progress);

std::string print_held_part(const HeldPart& part);
// Returns an error if the part does not fit the record.
Result<HeldPart> parse_held_part(std::string_view text, const HostsRecord& record);

}  // namespace trireme
