#include <sys/mman.h>
#include <unistd.h>

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

// Checksums hide everything behind them from a fuzzer: half of the inputs are given right ones,
// and the right magic.
void repair(std::vector<std::byte>& bytes) {
  constexpr size_t kHeader = trireme::kTokenFileHeaderBytes;
  if (bytes.size() < kHeader) return;
  const uint32_t version = 1;
  std::memcpy(bytes.data(), "TRITOK\r\n", 8);
  std::memcpy(bytes.data() + 8, &version, sizeof version);
  const uint64_t payload = trireme::hash64(std::span<const std::byte>(bytes).subspan(kHeader));
  std::memcpy(bytes.data() + 56, &payload, sizeof payload);
  const uint32_t zero = 0;
  std::memcpy(bytes.data() + 20, &zero, sizeof zero);
  const uint32_t header =
      static_cast<uint32_t>(trireme::hash64(std::span<const std::byte>(bytes).first(kHeader)));
  std::memcpy(bytes.data() + 20, &header, sizeof header);
}

}  // namespace

// A token file: it is refused, or every token that can be read is in its vocabulary.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> bytes(begin + 1, begin + size);
  if (data[0] % 2 == 0) repair(bytes);

  const int fd = ::memfd_create("token_file_fuzz", 0);
  if (fd < 0 || ::write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    std::abort();
  }
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const auto file = trireme::TokenFile::open(path);
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
