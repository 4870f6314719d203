#pragma once

#include <string>

#include "base/input_file.h"

namespace trireme {

// Opens files of stores by names such as store://NAME/PATH, for all ranks of this process: those
// that read the same file at the same time share what is in memory.
OpenInput store_inputs(const std::string& stores_folder, const std::string& secret);

}  // namespace trireme
