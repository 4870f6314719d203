#pragma once

#include <string>

#include "base/result.h"
#include "store/store_wire.h"

// The file log.json in the folder of a server of a store.
namespace trireme {

// Returns how a server takes part in the log of a store that is made. The servers that keep the
// metadata are numbered in their order.
LogStart first_start_of(const ServerDescription& description);

// The text of the file, which ends with its checksum.
std::string text_of(const ServerDescription& description, const LogStart& start);
Status parse_log_servers(const std::string& text, ServerDescription& description, LogStart& start);
// Writes the addresses of `description`, and `start` if it differs from first_start_of().
Status write_log_servers(const std::string& folder, const ServerDescription& description,
                         const LogStart& start);
Status read_log_servers(const std::string& folder, ServerDescription& description, LogStart& start);

}  // namespace trireme
