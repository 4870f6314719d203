#pragma once

#include <cstdint>
#include <string_view>

namespace trireme {

// The Castagnoli CRC of iSCSI and of TensorFlow's files (reflected polynomial 0x82f63b78).
uint32_t crc32c(std::string_view bytes);

}  // namespace trireme
