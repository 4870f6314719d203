#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "comm/tcp/socket.h"
#include "raft/log_format.h"
#include "store/chunk_target.h"
#include "store/folder_identity.h"

// What the servers of a store and their clients send each other over TCP. A frame is
//
//     magic "TRC1" · head bytes (4) · payload bytes (4) · 0 (4) · XXH3-64 of the head (8)
//
// then the head, which is a packed request or reply, and the payload, which is a chunk. A chunk has
// a checksum of its own. Lengths are checked before anything is allocated.
namespace trireme {

// What a client asks of a server, and which fields of the request say more.
enum class StoreOp : uint8_t {
  Describe,  // the reply has the packed ServerDescription of the server
  Assign,    // text: a packed ServerDescription, which a server without a store takes on
  Write,     // epoch, chunk, checksum, payload
  Read,      // chunk, chunk_bytes, checksum; the payload comes with the reply
  Remove,    // epoch, chunk
  List,      // chunk: the reply has the names that follow this one
  Apply,     // text: a command for the metadata
  Query,     // text: a question to the metadata
  Release,   // store: the server gives up a store whose creation has failed
  // The servers that keep the metadata change one at a time.
  Members,        // text: any question. The leader's reply has the encoded LogMembers of the log
  ChangeMembers,  // epoch, text: the encoded LogMembers that the log gets, in one step
  KeepLog,        // epoch, text: a packed LogStart. The reply has a packed LogStart: the one in use
  LogServers,     // epoch, text: a packed LogStart, whose servers keep the metadata from now on
  ReadPart,       // as Read; text: a packed ChunkRange. The text of the reply is its checksum
  // The text of the reply says what is damaged of the server's own metadata, or "". With the text
  // kMend, it is written again. epoch
  CheckMetadata,
};
inline constexpr StoreOp kLastStoreOp = StoreOp::CheckMetadata;
inline constexpr const char* kMend = "mend";

struct StoreRequest {
  StoreOp op = StoreOp::Describe;
  uint32_t deadline_ms = 0;  // how long the client waits for the reply
  // The store and the disk that the client means. A server that has another one refuses the
  // request. Describe and Assign do not use them.
  uint64_t store = 0;
  uint64_t incarnation = 0;
  // Token of the maintainer, which scrubs, repairs or drains; 0: another client. A server refuses a
  // token below the greatest one that it has seen.
  uint64_t epoch = 0;
  // Apply, Query, Members, ChangeMembers: a server that does not lead gets the answer of the
  // leader, because the client cannot reach the leader itself.
  bool passes_on = false;
  ChunkName chunk = {};
  uint32_t chunk_bytes = 0;
  uint64_t checksum = 0;
  std::string text = {};
};

struct StoreReply {
  std::optional<Error> error = {};        // nothing else counts then
  ChunkState state = ChunkState::Intact;  // Read
  bool is_leader = true;                  // Apply, Query: as in AppliedAnswer
  std::string leader = {};                // "": not known
  std::string text = {};                  // Apply, Query: the answer; Read: why; Describe: packed
  std::vector<ChunkName> chunks = {};     // List: at most kMostListedChunks
};
inline constexpr size_t kMostListedChunks = 65536;

// A server that keeps the metadata.
struct LogServer {
  std::string address;      // HOST:PORT at which clients reach it
  std::string log_address;  // HOST:PORT at which the other servers of the log reach it
  bool operator==(const LogServer&) const = default;
};

// A server describes itself with this.
struct ServerDescription {
  FolderIdentity identity;  // store 0: it belongs to no store yet
  std::string address;      // as in LogServer, whether or not it keeps the metadata
  std::string log_address;  // likewise
  int64_t free_bytes = 0;   // on its disk; 0: not known
  std::vector<LogServer> log_servers;
};

// How a server takes part in the log of the metadata.
struct LogStart {
  ServerId id = 0;  // of the server in the log; 0: it does not keep the metadata
  std::vector<LogServer> servers;
  bool operator==(const LogStart&) const = default;
};

// True if the server itself is one of those that keep the metadata.
bool keeps_metadata(const ServerDescription& server);
// Returns the servers that keep the metadata without the one at this address.
std::vector<LogServer> log_servers_without(std::vector<LogServer> servers,
                                           const std::string& address);

std::string pack_request(const StoreRequest& request);
Result<StoreRequest> unpack_request(std::string_view bytes);
std::string pack_reply(const StoreReply& reply);
Result<StoreReply> unpack_reply(std::string_view bytes);
std::string pack_description(const ServerDescription& description);
Result<ServerDescription> unpack_description(std::string_view bytes);
std::string pack_range(ChunkRange range);
// Refuses a range that does not have whole pieces of a chunk.
Result<ChunkRange> unpack_range(std::string_view bytes, uint32_t chunk_bytes);
std::string pack_log_start(const LogStart& start);
Result<LogStart> unpack_log_start(std::string_view bytes);

// Sends a frame. `head` is a packed request or reply.
Status send_store_frame(const Socket& socket, std::string_view head,
                        std::span<const std::byte> payload, Deadline deadline);
// Receives a frame and returns its head. The payload fills `payload`, which is cut to its length; a
// payload that does not fit is an error.
Result<std::string> receive_store_frame(const Socket& socket, std::span<std::byte>& payload,
                                        Deadline deadline);

// Returns the secret of the connections to servers. It differs from that of the agents of a job, so
// that neither is taken for the other if both have the same TRIREME_SECRET.
std::string secret_of_store(const std::string& secret);

}  // namespace trireme
