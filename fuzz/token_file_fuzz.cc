#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/hash.h"
#include "data/file_source.h"
#include "data/token_file.h"

namespace {

template <typename T>
T number_at(const std::vector<std::byte>& bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}
template <typename T>
void put(std::vector<std::byte>& bytes, size_t offset, T value) {
  if (offset + sizeof value > bytes.size()) return;
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

// A fuzzer cannot guess checksums, so half of the inputs get correct ones, the right magic and one
// of the versions.
void repair(std::vector<std::byte>& bytes, uint32_t version) {
  constexpr size_t kHeader = trireme::kTokenFileHeaderBytes;
  constexpr size_t kChunk = trireme::kTokenChunkBytes;
  if (bytes.size() < kHeader) return;
  std::memcpy(bytes.data(), "TRITOK\r\n", 8);
  put(bytes, 8, version);
  const size_t tokens = number_at<uint64_t>(bytes, 24) % (bytes.size() + 1);
  const size_t payload =
      std::min(bytes.size() - kHeader, tokens * (number_at<uint32_t>(bytes, 12) % 8));
  const auto payload_bytes = std::span<const std::byte>(bytes).subspan(kHeader, payload);
  if (version == 2) {
    for (size_t begin = 0, chunk = 0; begin < payload; begin += kChunk, ++chunk) {
      const auto part = payload_bytes.subspan(begin, std::min(kChunk, payload - begin));
      put(bytes, kHeader + payload + 8 * chunk,
          trireme::token_chunk_hash(static_cast<int64_t>(chunk), part));
    }
  }
  put(bytes, 56, trireme::hash64(payload_bytes));
  put(bytes, 20, uint32_t{0});
  put(bytes, 20,
      static_cast<uint32_t>(trireme::hash64(std::span<const std::byte>(bytes).first(kHeader))));
}

}  // namespace

// A token file: it is refused, or every token that can be read is in its vocabulary.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> bytes(begin + 1, begin + size);
  if (data[0] % 2 == 0) repair(bytes, data[0] % 4 == 0 ? 1 : 2);

  const int fd = ::memfd_create("token_file_fuzz", 0);
  if (fd < 0 || ::write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    std::abort();
  }
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  // Another bit of the mode decides whether chunks are verified when the file is opened or when
  // they are read.
  const auto file =
      trireme::TokenFile::open(path, data[0] % 8 < 4 ? trireme::TokenFile::kVerifiedAtOpen : 0);
  if (file.ok()) {
    std::vector<int32_t> tokens(static_cast<size_t>(file->num_tokens()));
    try {
      file->read(0, tokens);
      for (int32_t token : tokens) {
        if (token < 0 || token >= file->vocab_size()) std::abort();
      }
    } catch (const trireme::IoError&) {
    }
  }
  ::close(fd);
  return 0;
}
