#pragma once

#include <functional>
#include <string>

namespace trireme {

// The result of reading a checkpoint back.
struct ReadBack {
  bool is_done = true;  // false: stopped by should_stop
  std::string problem;  // the first problem; "" if every byte has the checksum that was written
};

// Reads all files of a checkpoint from the disk, past the page cache if the system allows it, and
// compares the size and checksum of each part with the index. Files are not mapped, so a failing
// disk gives an error instead of a signal. Uses one buffer of a mebibyte and calls `should_stop`
// before each read.
ReadBack read_back(const std::string& folder, const std::function<bool()>& should_stop = {});

}  // namespace trireme
