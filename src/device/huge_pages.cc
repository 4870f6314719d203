#include "device/huge_pages.h"

#include <sys/mman.h>

namespace trireme {

void collapse_pages(void* data, int64_t bytes) {
  constexpr int kCollapse = 25;  // MADV_COLLAPSE
  const auto begin = reinterpret_cast<uintptr_t>(data);
  const uintptr_t first = (begin + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  const uintptr_t end = (begin + uintptr_t(bytes)) / kHugePageBytes * kHugePageBytes;
  if (first < end) ::madvise(reinterpret_cast<void*>(first), end - first, kCollapse);
}

}  // namespace trireme
