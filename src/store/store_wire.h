#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "comm/tcp/socket.h"
#include "store/chunk_folder.h"
#include "store/chunk_target.h"

// What the servers of a store and their clients send each other over TCP. A frame is
//
//     magic "TRC1" · bytes of the head (4) · bytes of the payload (4) · XXH3-64 of the head (8)
//
// then the head, which is a packed request or reply, and the payload, which is a chunk. A chunk is
// checked with its own checksum. Lengths are checked before anything is allocated.
namespace trireme {

enum class StoreOp : uint8_t {
  Describe,  // who are you?
  Assign,    // text: a packed ServerDescription; an empty server becomes a server of a store
  Write,     // epoch, chunk, checksum, payload
  Read,      // chunk, chunk_bytes, checksum; the payload comes with the reply
  Remove,    // epoch, chunk
  List,      // chunks behind `chunk`
  Apply,     // text: a command for the metadata
  Query,     // text: a question to the metadata
};
inline constexpr StoreOp kLastStoreOp = StoreOp::Query;

struct StoreRequest {
  StoreOp op = StoreOp::Describe;
  uint32_t deadline_ms = 0;  // the client waits so long
  // The store and the disk that the client means; the server refuses if it is another one. Not used
  // by Describe and Assign.
  uint64_t store = 0;
  uint64_t incarnation = 0;
  // Token of the maintainer that repairs or scrubs, and of no use to others: 0. A server refuses
  // a smaller one than it has seen.
  uint64_t epoch = 0;
  ChunkName chunk = {};
  uint32_t chunk_bytes = 0;
  uint64_t checksum = 0;
  std::string text = {};
};

struct StoreReply {
  std::optional<Error> error = {};        // nothing else counts then
  ChunkState state = ChunkState::Intact;  // Read
  bool is_leader = true;                  // Apply, Query: as in CommandAnswer
  std::string leader = {};                // "": not known
  std::string text = {};                  // Apply, Query: the answer; Read: why; Describe: packed
  std::vector<ChunkName> chunks = {};     // List: at most kMostListedChunks
};
inline constexpr size_t kMostListedChunks = 65536;

struct LogServer {
  std::string address;      // of its server of chunks
  std::string log_address;  // of its server of the log
  bool operator==(const LogServer&) const = default;
};

// What a server tells about itself.
struct ServerDescription {
  FolderIdentity identity;  // store 0: it belongs to no store yet
  std::string address;
  std::string log_address;
  int64_t free_bytes = 0;
  std::vector<LogServer> log_servers;  // that keep the metadata
};

std::string pack_request(const StoreRequest& request);
Result<StoreRequest> unpack_request(std::string_view bytes);
std::string pack_reply(const StoreReply& reply);
Result<StoreReply> unpack_reply(std::string_view bytes);
std::string pack_description(const ServerDescription& description);
Result<ServerDescription> unpack_description(std::string_view bytes);

Status send_store_frame(const Socket& socket, std::string_view head,
                        std::span<const std::byte> payload, Deadline deadline);
// Returns the head. `payload` receives the payload and gets its length; a payload that does not fit
// in it is an error.
Result<std::string> receive_store_frame(const Socket& socket, std::span<std::byte>& payload,
                                        Deadline deadline);

// The secret of the store's connections, so that agents of a job are not taken for its servers.
std::string secret_of_store(const std::string& secret);

}  // namespace trireme
