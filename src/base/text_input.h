#pragma once

#include <string>

#include "base/input_file.h"

namespace trireme {

// Returns a text that is read like a file which is elsewhere. Its checksum is known.
InputFile input_of_text(std::string path, std::string text);

}  // namespace trireme
