#pragma once

#include <functional>
#include <string>

#include "base/result.h"

namespace trireme {

// Makes a folder that appears whole or not at all: `fill` gets the path of a temporary one beside
// it. Refuses a `path` that exists and is not an empty folder.
Status write_whole_folder(const std::string& path,
                          const std::function<Status(const std::string& temporary)>& fill);

}  // namespace trireme
