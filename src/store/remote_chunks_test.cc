#include "store/remote_chunks.h"

#include <gtest/gtest.h>

#include "base/hash.h"
#include "comm/tcp/visits.h"
#include "store/store_fixture.h"

namespace trireme {
namespace {

// A server that compares no checksums: every chunk has these bytes.
class CarelessServer {
 public:
  explicit CarelessServer(const std::string& bytes)
      : visits_(Reception(take(), secret_of_store("secret"), nullptr), {}, nullptr, [bytes] {
          return [bytes](const Socket& socket) { return serve(socket, bytes); };
        }) {}
  const std::string& address() const { return address_; }

 private:
  static Status serve(const Socket& socket, const std::string& bytes) {
    std::span<std::byte> nothing;
    TRIREME_TRY(head, receive_store_frame(socket, nothing, Deadline::after(10)));
    TRIREME_TRY(request, unpack_request(head));
    StoreReply reply;
    if (request.op == StoreOp::ReadPart) reply.text = hex64(request.checksum);
    return send_store_frame(socket, pack_reply(reply), std::as_bytes(std::span(bytes)),
                            Deadline::after(10));
  }
  Socket take() {
    Socket listener = listen_at("127.0.0.1:0").value();
    address_ = own_address(listener);
    return listener;
  }

  std::string address_;
  Visits visits_;
};

TEST(RemoteChunks, AChunkIsComparedOnceMoreBehindTheNetwork) {
  const std::string sent = random_bytes(1, 1000);
  CarelessServer server(sent);
  RemoteChunks chunks(std::make_shared<StorePeer>(server.address(), secret_of_store("secret")), {});
  std::string got(sent.size(), ' ');
  const auto bytes = std::as_writable_bytes(std::span(got));
  const uint64_t right = hash64(std::as_bytes(std::span(sent)));
  for (const uint64_t checksum : {right, right + 1}) {
    const ChunkState want = checksum == right ? ChunkState::Intact : ChunkState::Unreadable;
    EXPECT_EQ(chunks.read({1, 0}, bytes, checksum).state, want);
    EXPECT_EQ(chunks.read_part({1, 0}, {uint32_t(sent.size()), checksum, 0}, bytes).state, want);
  }
}

}  // namespace
}  // namespace trireme
