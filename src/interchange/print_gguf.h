#pragma once

#include <string>

#include "interchange/gguf.h"

namespace trireme {

// Assigns consecutive offsets to the tensors and pads the header up to the data.
std::string print_gguf_header(GgufHeader& header);

}  // namespace trireme
