#include "base/hashed_copy.h"

#include <algorithm>

#include "base/hash.h"
#include "base/stream_copy.h"

namespace trireme {
namespace {

// Bytes that a thread hashes and copies at a time, so few that they stay in its cache.
constexpr size_t kInCacheAtOnce = size_t{256} << 10;

}  // namespace

void HashedCopy::make(std::span<std::byte> target) {
  std::span<const std::byte> rest(from, size_t(bytes));
  std::byte* to = target.data() + offset;
  Hasher64 hasher;
  while (!rest.empty()) {
    const auto part = rest.first(std::min(rest.size(), kInCacheAtOnce));
    hasher.update(part);
    if (to != part.data()) stream_copy(to, part);
    to += part.size();
    rest = rest.subspan(part.size());
  }
  end_stream_copies();
  checksum = hasher.digest();
  is_made = true;
}

}  // namespace trireme
