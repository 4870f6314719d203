#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/hash.h"
#include "scratch_folder.h"
#include "store/chunk_folder.h"
#include "store/chunk_format.h"

namespace {

using namespace trireme;

constexpr uint64_t kStore = 7;
constexpr ChunkName kName = {9, 1};
constexpr size_t kRoomBytes = 128 << 10;

void require(bool holds) {
  if (!holds) std::abort();
}

// A fuzzer cannot guess checksums, so the header gets correct ones: of itself, of the checksums of
// the pieces, and of the bytes, as far as the file has them.
void correct(std::string& file) {
  ChunkHeader header;
  if (file.size() < sizeof(header)) return;
  std::memcpy(&header, file.data(), sizeof(header));
  const std::string_view rest = std::string_view(file).substr(sizeof(header));
  const size_t bytes = std::min<size_t>(header.bytes, rest.size());
  header = header_of(kStore, kName, header.bytes, hash64(rest.substr(0, bytes)), header.piece_bytes,
                     header.piece_bytes == 0 ? 0 : hash64(rest.substr(bytes)));
  std::memcpy(file.data(), &header, sizeof(header));
}

// Every piece of a chunk that was read as a whole has the same bytes when it is read alone, or is
// refused.
void check_pieces(ChunkFolder& folder, std::span<const std::byte> whole, uint64_t checksum) {
  std::vector<std::byte> piece(kChunkPieceBytes);
  for (size_t begin = 0; begin < whole.size(); begin += kChunkPieceBytes) {
    const auto bytes =
        std::span(piece).first(std::min<size_t>(kChunkPieceBytes, whole.size() - begin));
    const ChunkPart part{uint32_t(whole.size()), checksum, uint32_t(begin)};
    if (folder.read_part(kName, part, bytes).state != ChunkState::Intact) continue;
    require(std::ranges::equal(bytes, whole.subspan(begin, bytes.size())));
  }
}

}  // namespace

// The file of a chunk. If it is intact, its bytes have the checksum of its header, however they are
// read. The first byte says whether the checksums are made correct.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const ScratchFolder scratch("store_chunk_fuzz");
  static ChunkFolder folder(scratch.path(), kStore, nullptr);
  if (size == 0) return 0;
  std::string file(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) correct(file);
  const std::string path = folder.path_of(kName);
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  write_plainly(path, file);

  std::vector<std::byte> room(kRoomBytes);
  const ChunkRead checked = folder.check(kName, room);
  require(checked.state == ChunkState::Intact || !checked.why.empty());
  if (checked.state != ChunkState::Intact) return 0;
  ChunkHeader header;
  std::memcpy(&header, file.data(), sizeof(header));
  const auto bytes = std::span(room).first(header.bytes);
  require(file.size() >= sizeof(header) + bytes.size());
  require(hash64(bytes) == header.checksum);
  std::vector<std::byte> again(bytes.size());
  require(folder.read(kName, again, header.checksum).state == ChunkState::Intact);
  require(std::ranges::equal(again, bytes));
  if (!bytes.empty()) {
    require(folder.read(kName, again, header.checksum + 1).state == ChunkState::Damaged);
  }
  check_pieces(folder, bytes, header.checksum);
  return 0;
}
