#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/progress.h"
#include "base/result.h"
#include "checkpoint/hosts_record.h"

namespace trireme {

// The parity piece of one row that a host keeps for one lane of its group is a file. It ends with
// eight bytes: hash64 of the bytes before them, xor a number of the place, so that a piece of
// another save or place is refused.
std::string parity_file_name(int lane, int row);

// Gives a file with the bytes of a piece its length and its checksum. `buffer` is used to read it.
Status seal_parity_file(const std::string& folder, const HostsRecord& record, int lane, int row,
                        int64_t bytes, std::span<std::byte> buffer);
// Seals a piece that lies under another name, in the same way.
Status seal_parity_at(const std::string& path, const HostsRecord& record, int lane, int row,
                      int64_t bytes, std::span<std::byte> buffer);
Status check_parity_file(const std::string& folder, const HostsRecord& record, int lane, int row,
                         Progress* progress);

}  // namespace trireme
