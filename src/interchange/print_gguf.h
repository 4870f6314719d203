#pragma once

#include <string>

#include "interchange/gguf.h"

namespace trireme {

// Gives the tensors their offsets, one behind the other, and pads up to the data.
std::string print_gguf_header(GgufHeader& header);

}  // namespace trireme
