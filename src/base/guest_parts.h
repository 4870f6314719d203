#pragma once

#include <string>
#include <vector>

namespace trireme {

// A host on which no rank is placed any more gives its parts of checkpoints in memory to a host
// that has ranks, because only ranks exchange parts. They lie there in a folder of its name, beside
// the own parts of that host.

// The folder for the parts of `host` in a folder of this host's memory.
std::string guest_folder(const std::string& root, const std::string& host);
// Beginning of the names of folders whose parts are still arriving.
inline constexpr const char* kUnfinishedGuest = "arriving-";
std::vector<std::string> guest_folders(const std::string& root);
// Once a newer checkpoint is complete, nobody needs the parts of guests any more.
void remove_guests(const std::string& root);

}  // namespace trireme
