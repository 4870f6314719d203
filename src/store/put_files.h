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

// Writes files into the store, and replaces those that it has already. Small files share blocks.
// The command that seals the blocks of a group of files makes all of them visible and durable, or
// none.
Result<PutTotals> put_files(Store& store, const std::vector<FileToPut>& files);

}  // namespace trireme
