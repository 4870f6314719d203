#pragma once

#include <functional>
#include <string>

namespace trireme {

// The result of reading a checkpoint back.
struct ReadBack {
  bool is_done = true;  // false: given up because the caller asked for it
  std::string problem;  // the first one; "": every byte has the checksum of what was written
};

// Reads all files of a checkpoint from the disk, past the page cache where the system allows it,
// and compares size and checksum of each part with the index. Nothing is mapped: a disk that fails
// is an answer, not a signal. One buffer of a mebibyte; `should_stop` is asked before each is read.
ReadBack read_back(const std::string& folder, const std::function<bool()>& should_stop = {});

}  // namespace trireme
