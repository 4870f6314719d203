#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "store/store_wire.h"

namespace {

using namespace trireme;

// A message that was read and written again stays the same.
template <typename Message>
void require_round_trip(std::string_view bytes, Result<Message> (*unpack)(std::string_view),
                        std::string (*pack)(const Message&)) {
  const Result<Message> message = unpack(bytes);
  if (!message.ok()) return;
  const std::string packed = pack(*message);
  const Result<Message> again = unpack(packed);
  if (!again.ok() || pack(*again) != packed) std::abort();
}

}  // namespace

// The first byte chooses whether the others are a request to a server of a store, a reply, the
// description of a server, or how a server takes part in the log.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 4 == 0) require_round_trip(bytes, unpack_request, pack_request);
  if (data[0] % 4 == 1) require_round_trip(bytes, unpack_reply, pack_reply);
  if (data[0] % 4 == 2) require_round_trip(bytes, unpack_description, pack_description);
  if (data[0] % 4 == 3) require_round_trip(bytes, unpack_log_start, pack_log_start);
  return 0;
}
