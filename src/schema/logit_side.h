#pragma once

#include <cstdint>

namespace trireme {

// Which side of the attention logits q k^T a parameter makes.
enum class LogitSide : uint8_t { None, Query, Key };

}  // namespace trireme
