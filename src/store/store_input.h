#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "base/input_file.h"
#include "base/result.h"
#include "store/store.h"

namespace trireme {

// Opens the store, for reading. It is called again if a file cannot be read, because chunks may
// have moved since.
using OpenForReading = std::function<Result<std::unique_ptr<Store>>()>;

// How many bytes of chunks the open files of a process may keep in memory together.
struct InputBudget {
  const int64_t most_bytes = int64_t{256} << 20;
  std::atomic<int64_t> held_bytes = 0;
  std::atomic<int64_t> unread_bytes = 0;  // of them: those that were read ahead and not used yet
  std::atomic<int64_t> open_bytes = 0;    // of all files that are open, in memory or not
};

// Opens a file of a store for reading at any offset. What was read and checked is kept in memory.
// If all open files fit into the budget, the file keeps whole chunks. Otherwise it keeps the pieces
// of chunks (kChunkPieceBytes) in which the bytes lie, unless a megabyte or more is read on end. If
// the budget is used up, the file lets go of what it has not used for the longest time, but it
// always keeps as much as four chunks. If the chunk before was read lately, those behind are read
// ahead. Data that will_read() announces may take up to half of the budget. A file that is replaced
// in the meantime is an error, because the reader would mix two files.
Result<std::shared_ptr<const InputBytes>> open_store_input(const OpenForReading& open,
                                                           const std::string& path,
                                                           std::shared_ptr<InputBudget> budget);

}  // namespace trireme
