#pragma once

#include <cstddef>
#include <span>

namespace trireme {

// Copies bytes to memory that this core will not read soon: they do not replace what is in its
// caches. The two must not overlap. Call end_stream_copies() before others may read the copy.
void stream_copy(std::byte* to, std::span<const std::byte> from);
void end_stream_copies();

}  // namespace trireme
