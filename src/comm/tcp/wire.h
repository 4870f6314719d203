#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "collectives/collective.h"
#include "comm/host_news.h"
#include "comm/host_windows.h"
#include "comm/transport.h"

// Everything that ranks send each other over tcp, as structs of fixed layout in little-endian
// order, and the functions that check received bytes. A check returns a copy, or an error that
// says what is wrong; a struct that has passed it can be used without further tests.
namespace trireme {

using Bytes = std::span<const std::byte>;

inline constexpr int kLargestTcpWorld = 4096;     // ranks
inline constexpr int kTcpGroups = 4096;           // groups have lower ids
inline constexpr int64_t kTcpInlineBytes = 4096;  // longer payloads wait until they are accepted
inline constexpr int64_t kTcpSegmentBytes = int64_t{256} << 10;
// So many messages of a sender may wait to be taken, in each lane of each group.
inline constexpr int kTcpUntaken = 32;

template <typename T>
Bytes bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

// ---- Joining ----

using Nonce = std::array<uint8_t, 32>;
using Proof = std::array<uint8_t, 32>;

enum class Purpose : uint32_t {
  Join,    // a rank to the rendezvous
  Peer,    // a rank to another rank of its epoch
  Agent,   // the agent of a host to the leader of the job
  Status,  // somebody who only wants to know how the job is, to any agent
  Parts,   // an agent that gives its parts of checkpoints in memory to another one
};

// The first message of both sides of a connection.
struct Hello {
  std::array<char, 8> magic = {'t', 'r', 'i', 'r', 'e', 'm', 'e', '1'};
  Purpose purpose = Purpose::Join;
  int32_t rank = -1;  // of the sender; -1: the rendezvous
  uint64_t epoch = 0;
  Nonce nonce = {};
};
Result<Hello> check_hello(Bytes bytes);

enum class Verdict : uint32_t {
  Welcome,
  WrongSecret,
  WrongEpoch,
  WrongRank,  // it is not below the number of ranks
  RankTaken,
};
// The answer of the side that was connected to. The proof is valid only with Welcome.
struct Answer {
  Verdict verdict = Verdict::Welcome;
  uint32_t reserved = 0;
  uint64_t epoch = 0;  // of the answering side
  Proof proof = {};
};
Result<Answer> check_answer(Bytes bytes);

// A rank tells all others this about itself.
struct Introduction {
  WindowAddress window = {};
  int64_t inbox = 0;                  // offset of its inboxes in its window (StreamRing)
  std::array<char, 128> host = {};    // ranks with the same text can share memory; ends with 0
  std::array<char, 64> address = {};  // at which it listens, such as 10.0.0.1:4000; ends with 0
};
Result<Introduction> check_introduction(Bytes bytes, int size);
// All introductions, in the order of ranks.
Result<std::vector<Introduction>> check_roster(Bytes bytes, int size);
// For every rank the first rank of its node.
Result<std::vector<int32_t>> check_nodes(Bytes bytes, int size);

// ---- Messages between ranks ----

enum class FrameKind : uint8_t {
  Announce,  // a message; its body is the signature of the call and a payload up to kTcpInlineBytes
  Taken,     // a short message was taken
  Accept,    // a long message was taken, and its payload may be sent
  Payload,   // a segment of a long message
  News,      // a NewsMessage
};

struct TcpFrame {
  uint32_t magic = 0x32525431;
  FrameKind kind = FrameKind::News;
  Lane lane = Lane::Collective;
  uint16_t reserved = 0;
  uint64_t epoch = 0;
  int32_t group = 0;
  int32_t tag = 0;
  uint32_t sender = 0;        // Announce, Accept: number of the transfer on the sending rank
  uint32_t receiver = 0;      // Accept, Payload: number of the transfer on the receiving rank
  int64_t message_bytes = 0;  // Announce: of the whole payload
  int64_t body_bytes = 0;     // that follow
  // Between hosts, where bytes pass adapters and switches; 0 within a host.
  uint64_t body_checksum = 0;
  uint64_t head_checksum = 0;  // of everything above
};
Result<TcpFrame> check_frame(Bytes bytes);
// XXH3-64 of a body that lies in two parts.
uint64_t body_checksum(Bytes body, Bytes more_body = {});
// Sets the checksum of the head, once all other fields are set.
void seal(TcpFrame& frame);
// An error if the head, or else the body, is not the one that was sent.
Status check_head_checksum(const TcpFrame& frame);
Status check_body_checksum(const TcpFrame& frame, Bytes body);

struct Announcement {
  SignatureRecord signature;
  Bytes payload;  // of a short message; it lies in the checked bytes
};
Result<Announcement> check_announcement(const TcpFrame& frame, Bytes body);
Result<NewsMessage> check_news(Bytes body, int size);

}  // namespace trireme
