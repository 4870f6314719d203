#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "data/byte_stream.h"

namespace {

using trireme::Compression;
using trireme::InputStream;

class MemoryStream : public InputStream {
 public:
  explicit MemoryStream(std::span<const char> bytes) : bytes_(bytes) {}
  trireme::Result<size_t> read(std::span<char> out) override {
    const size_t count = std::min(out.size(), bytes_.size());
    if (count > 0) std::memcpy(out.data(), bytes_.data(), count);
    bytes_ = bytes_.subspan(count);
    return count;
  }
  trireme::Status skip(int64_t bytes) override {
    bytes_ = bytes_.subspan(std::min(bytes_.size(), static_cast<size_t>(bytes)));
    return trireme::Done{};
  }

 private:
  std::span<const char> bytes_;
};

constexpr size_t kGreatest = size_t{1} << 20;  // a small file may decompress to a very large one

struct Unpacked {
  std::string bytes;
  bool failed = false;
};

Unpacked unpack(std::span<const char> packed, Compression compression, size_t block) {
  const auto stream = trireme::unpacked_stream(std::make_unique<MemoryStream>(packed), compression);
  Unpacked unpacked;
  std::vector<char> out(block);
  while (unpacked.bytes.size() < kGreatest) {
    const auto got = stream->read(out);
    if (!got.ok()) {
      if (got.error().message.empty()) std::abort();
      unpacked.failed = true;
      break;
    }
    unpacked.bytes.append(out.data(), *got);
    if (*got < block) break;
  }
  return unpacked;
}

// Puts the format's magic before the input, because a fuzzer guesses deflated data sooner than
// headers.
std::vector<char> with_magic(std::span<const char> rest, Compression compression) {
  const std::string gzip("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10);
  const std::string zstd("\x28\xb5\x2f\xfd", 4);
  const std::string& magic = compression == Compression::Gzip ? gzip : zstd;
  std::vector<char> bytes(magic.begin(), magic.end());
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  return bytes;
}

}  // namespace

// A .gz or .zst file: for every block size the same bytes are decompressed, or the same prefix and
// an error.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::span<const char> input(reinterpret_cast<const char*>(data) + 2, size - 2);
  const Compression compression = data[0] & 1 ? Compression::Gzip : Compression::Zstd;
  const std::vector<char> packed =
      data[0] & 2 ? with_magic(input, compression) : std::vector<char>(input.begin(), input.end());
  const Unpacked whole = unpack(packed, compression, size_t{1} << 16);
  const Unpacked pieces = unpack(packed, compression, 1 + data[1]);
  const size_t both = std::min(whole.bytes.size(), pieces.bytes.size());
  if (whole.bytes.compare(0, both, pieces.bytes, 0, both) != 0) std::abort();
  const bool all_read = whole.bytes.size() < kGreatest && pieces.bytes.size() < kGreatest;
  if (all_read && whole.failed != pieces.failed) std::abort();
  if (all_read && !whole.failed && whole.bytes != pieces.bytes) std::abort();
  return 0;
}
