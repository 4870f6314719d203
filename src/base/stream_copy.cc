#include "base/stream_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace trireme {

#if defined(__SSE2__)

void stream_copy(std::byte* to, std::span<const std::byte> from) {
  constexpr size_t kWord = sizeof(__m128i);
  const size_t to_border = (kWord - reinterpret_cast<uintptr_t>(to) % kWord) % kWord;
  const size_t head = std::min(from.size(), to_border);
  std::memcpy(to, from.data(), head);
  const size_t words = (from.size() - head) / kWord;
  auto* const target = reinterpret_cast<__m128i*>(to + head);
  const auto* const source = reinterpret_cast<const __m128i*>(from.data() + head);
  for (size_t i = 0; i < words; ++i) _mm_stream_si128(target + i, _mm_loadu_si128(source + i));
  const size_t done = head + words * kWord;
  std::memcpy(to + done, from.data() + done, from.size() - done);
}

void end_stream_copies() { _mm_sfence(); }

#else

void stream_copy(std::byte* to, std::span<const std::byte> from) {
  std::memcpy(to, from.data(), from.size());
}

void end_stream_copies() {}

#endif

}  // namespace trireme
