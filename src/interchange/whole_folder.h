#pragma once

#include <functional>
#include <string>

#include "base/result.h"

namespace trireme {

// Makes a folder that appears complete or not at all. `fill` gets the path of a temporary folder
// beside it. An error if `path` exists and is not an empty folder.
Status write_whole_folder(const std::string& path,
                          const std::function<Status(const std::string& temporary)>& fill);

}  // namespace trireme
