#pragma once

#include <cstdint>

namespace trireme {

constexpr int64_t kHugePageBytes = int64_t{2} << 20;

// Asks the system to back the memory with huge pages, also memory that processes share. Each
// aligned huge page gets them only if it has at least one page already. It is only a hint: Linux
// before 6.1 refuses, and so do systems whose administrator denies huge pages of shared memory.
void collapse_pages(void* data, int64_t bytes);

}  // namespace trireme
