// How requests and replies are sent over a connection.

#include <fmt/format.h>

#include "base/hash.h"
#include "store/store_wire.h"

namespace trireme {
namespace {

constexpr uint32_t kFrameMagic = 0x31435254;  // "TRC1"
constexpr size_t kMostHeadBytes = size_t{65} << 20;

struct FrameHead {
  uint32_t magic = kFrameMagic;
  uint32_t head_bytes = 0;
  uint32_t payload_bytes = 0;
  uint32_t reserved = 0;
  uint64_t checksum = 0;  // of the packed head
};
static_assert(sizeof(FrameHead) == 24);

}  // namespace

Status send_store_frame(const Socket& socket, std::string_view head,
                        std::span<const std::byte> payload, Deadline deadline) {
  const FrameHead frame{.head_bytes = uint32_t(head.size()),
                        .payload_bytes = uint32_t(payload.size()),
                        .checksum = hash64(head)};
  std::string first(reinterpret_cast<const char*>(&frame), sizeof(frame));
  first += head;
  TRIREME_TRY_DONE(send_all(socket, std::as_bytes(std::span(first)), deadline));
  return payload.empty() ? Status(Done{}) : send_all(socket, payload, deadline);
}

Result<std::string> receive_store_frame(const Socket& socket, std::span<std::byte>& payload,
                                        Deadline deadline) {
  FrameHead frame;
  TRIREME_TRY_DONE(receive_all(socket, std::as_writable_bytes(std::span(&frame, 1)), deadline));
  if (frame.magic != kFrameMagic || frame.head_bytes > kMostHeadBytes ||
      frame.payload_bytes > payload.size()) {
    return damaged(fmt::format("a message from {} has a wrong head", peer_address(socket)));
  }
  std::string head(frame.head_bytes, '\0');
  TRIREME_TRY_DONE(receive_all(socket, std::as_writable_bytes(std::span(head)), deadline));
  if (hash64(head) != frame.checksum) {
    return damaged(fmt::format("a message from {} has a wrong checksum", peer_address(socket)));
  }
  payload = payload.first(frame.payload_bytes);
  TRIREME_TRY_DONE(receive_all(socket, payload, deadline));
  return head;
}

}  // namespace trireme
