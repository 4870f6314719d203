#pragma once

#include <string>

#include "base/result.h"

namespace trireme {

// A checkpoint or run directory that is not there is wrong usage, not damage.
Status require_folder(const std::string& path);

// What is written is written anew: neither a file nor a folder with files is there.
Status require_new(const std::string& out);

}  // namespace trireme
