#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "store/metadata.h"

namespace {

using namespace trireme;

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

// The first byte chooses whether the others are a snapshot, a command or a question to the metadata
// of a store. Whatever the metadata take, the snapshot of their state can be restored.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  Metadata metadata;
  if (data[0] % 3 == 0) {
    if (!metadata.restore(bytes).ok()) return 0;
  } else if (data[0] % 3 == 1) {
    metadata.apply(bytes);
    const Result<MetadataCommand> command = unpack_command(bytes);
    if (command.ok()) require(unpack_command(pack_command(*command)).ok());
  } else {
    metadata.query(bytes);
  }
  Metadata other;
  require(other.restore(metadata.snapshot()).ok());
  require(other.snapshot() == metadata.snapshot());
  return 0;
}
