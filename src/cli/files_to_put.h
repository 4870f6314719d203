#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "store/put_files.h"
#include "store/store_path.h"

namespace trireme {

// Returns the file `from` under the name of `to`, or every regular file of the folder `from` with
// its path inside the folder behind this name, in the order of the names.
Result<std::vector<FileToPut>> files_to_put(const std::string& from, const StoreUrl& to);

}  // namespace trireme
