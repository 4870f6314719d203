#include "data/whole_file.h"

#include <fmt/format.h>

#include "base/file.h"
#include "base/units.h"
#include "data/byte_stream.h"

namespace trireme {

Result<std::vector<uint8_t>> read_whole_file(const std::string& path, int64_t most_bytes) {
  constexpr size_t kBlock = size_t{1} << 20;
  TRIREME_TRY(stream, open_byte_stream(path, compression_of(path)));
  std::vector<uint8_t> bytes;
  for (size_t filled = 0;;) {
    bytes.resize(filled + kBlock);
    auto got = stream->read({reinterpret_cast<char*>(bytes.data()) + filled, kBlock});
    if (!got.ok()) return with_context(got.error(), path);
    filled += *got;
    bytes.resize(filled);
    if (int64_t(filled) > most_bytes) {
      return damaged(fmt::format("{} has more than {}", path, format_bytes(most_bytes)));
    }
    if (*got < kBlock) return bytes;
  }
}

}  // namespace trireme
