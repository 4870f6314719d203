#pragma once

#include <cstdint>
#include <string>

namespace trireme {

// Returns the folder at which the file system that has `path` is mounted, or "" if there is no such
// path.
std::string mount_point_of(const std::string& path);

// Returns the bytes that are free for the store on the file system of a folder; 0: not known.
int64_t free_bytes_of(const std::string& folder);

}  // namespace trireme
