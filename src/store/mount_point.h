#pragma once

#include <cstdint>
#include <string>

namespace trireme {

// Returns the folder at which the file system of `path` is mounted, or "" if `path` does not exist.
std::string mount_point_of(const std::string& path);

// Returns how many bytes are free on the file system of a folder, or 0 if this is not known.
int64_t free_bytes_of(const std::string& folder);

}  // namespace trireme
