#pragma once

#include <span>

#include "base/result.h"
#include "store/store.h"

namespace trireme {

// Removes files one after the other, in this order, and then the chunks that no file needs any
// more. After an error the files before the failing one are removed.
Status remove_files(Store& store, std::span<const WrittenFile> files);

}  // namespace trireme
