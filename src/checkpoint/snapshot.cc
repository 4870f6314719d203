#include "checkpoint/snapshot.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/hash.h"

namespace trireme {
namespace {

// So many bytes stay in a core's cache between copying and hashing them.
constexpr size_t kCopiedAtOnce = size_t{256} << 10;

}  // namespace

std::vector<TensorPiece> copy_pieces(std::span<const TensorPiece> pieces,
                                     std::span<std::byte> buffer) {
  std::vector<TensorPiece> copies(pieces.begin(), pieces.end());
  for (TensorPiece& piece : copies) {
    const auto* data = static_cast<const std::byte*>(piece.data);
    const size_t bytes = size_t(piece.slice.num_elements()) * size_t(size_of(piece.dtype));
    TRIREME_CHECK(bytes <= buffer.size(), "the buffer of snapshots is too small");
    Hasher64 hasher;
    for (size_t done = 0; done < bytes;) {
      const size_t count = std::min(bytes - done, kCopiedAtOnce);
      std::memcpy(buffer.data() + done, data + done, count);
      hasher.update(buffer.subspan(done, count));
      done += count;
    }
    piece.data = buffer.data();
    piece.checksum = hasher.digest();
    buffer = buffer.subspan(bytes);
  }
  return copies;
}

}  // namespace trireme
