#pragma once

#include <string>
#include <vector>

#include "store/store.h"

namespace trireme {

struct FileToPut {
  std::string from;  // path of a local file
  std::string path;  // its name in the store
};

struct PutTotals {
  int64_t num_files = 0;
  int64_t bytes = 0;
  int64_t chunks_to_repair = 0;  // could not be written, and are in the queue
};

// Writes files into the store. Small ones share blocks. A file is visible, and survives, once the
// command that seals its blocks has counted: files are sealed in groups, and a group is there as a
// whole or not at all. If a file is there already, it is replaced.
Result<PutTotals> put_files(Store& store, const std::vector<FileToPut>& files);

}  // namespace trireme
