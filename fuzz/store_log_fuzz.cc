#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "scratch_folder.h"
#include "store/metadata.h"
#include "store/mirrored_log.h"

namespace {

using namespace trireme;

constexpr size_t kHeadBytes = 56;
constexpr size_t kBytesAt = 32;

void require(bool holds) {
  if (!holds) std::abort();
}

// A fuzzer cannot guess checksums, so every record gets correct ones, its magic number and a length
// that fits.
void correct(std::string& log) {
  for (size_t at = 0; log.size() - at >= kHeadBytes;) {
    char* const head = log.data() + at;
    const size_t most = log.size() - at - kHeadBytes;
    uint64_t bytes = 0;
    std::memcpy(&bytes, head + kBytesAt, sizeof(bytes));
    bytes = std::min<uint64_t>(bytes, most);
    std::memcpy(head, "TRIRLOG1", 8);
    std::memcpy(head + kBytesAt, &bytes, sizeof(bytes));
    const uint64_t body = hash64(std::string_view(head + kHeadBytes, bytes));
    std::memcpy(head + kBytesAt + 8, &body, sizeof(body));
    const uint64_t mine = hash64(std::string_view(head, kHeadBytes - 8));
    std::memcpy(head + kHeadBytes - 8, &mine, sizeof(mine));
    at += kHeadBytes + bytes;
  }
}

}  // namespace

// The log of the metadata in a folder. To open it for reading changes nothing. If it can be read,
// the state behind it can be saved and restored, and it takes another command, which is there when
// the log is opened again. The first byte says whether the checksums are made correct.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const ScratchFolder scratch("store_log_fuzz");
  if (size == 0) return 0;
  std::string file(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 4 != 0) correct(file);
  const std::string path = scratch / "metadata.log";
  write_plainly(path, file);
  write_plainly(scratch / "metadata.term", file.substr(0, 20));

  Metadata metadata;
  auto log = MirroredLog::open({scratch.path()}, {}, metadata, nullptr);
  require(read_plainly(path) == file);
  if (!log.ok()) {
    require(!log.error().message.empty());
    return 0;
  }
  Metadata copy;
  require(copy.restore(metadata.snapshot()).ok());
  MetadataCommand abort{.kind = CommandKind::Abort, .number = 1};
  if (!(*log)->apply(pack_command(abort), Deadline::after(1.0)).ok()) return 0;
  Metadata again;
  require(MirroredLog::open({scratch.path()}, {}, again, nullptr).ok());
  require(again.snapshot() == metadata.snapshot());
  return 0;
}
