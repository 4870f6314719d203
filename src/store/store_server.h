#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>

#include "base/file_lock.h"
#include "comm/tcp/visits.h"
#include "raft/raft_server.h"
#include "store/background_repair.h"
#include "store/background_scrub.h"
#include "store/chunk_folder.h"
#include "store/metadata.h"
#include "store/mount_point.h"
#include "store/store_file.h"
#include "store/store_peer.h"
#include "store/store_wire.h"

namespace trireme {

class RemoteLog;

// The copy of the metadata that a server keeps.
struct LogOfServer {
  Metadata metadata;  // outlives the log that applies commands to it
  std::unique_ptr<RaftServer> log;
};

struct StoreServerOptions {
  std::string folder;
  std::string listen = "127.0.0.1:0";  // others reach the server at this address
  std::string secret;
  std::string join;  // any server of a store that an empty folder joins; "": it waits for a store
  std::string log_listen = {};  // for its copy of the metadata; "": the port after that of `listen`
  BackgroundScrubOptions scrub = {};    // of its own chunks
  BackgroundRepairOptions repair = {};  // of the store, while this server leads the metadata
  // Returns where the disk of a path is mounted; a test may say otherwise.
  std::function<std::string(const std::string& path)> mount_of = mount_point_of;
  TcpLog log;                    // gets sentences for an operator; may be empty
  DiskFaults* faults = nullptr;  // of the chunks; for tests
};

// A server of the chunks in one folder, best on a disk of its own. The first servers of a store
// also keep its metadata. The folder says which server it is: `store.json` names the store, the
// server and the disk, `log.json` the servers that keep the metadata, and `log/` has the copy of
// the metadata. One thread for each connection answers requests. If a request fails, the client
// gets the error.
class StoreServer {
 public:
  // A folder that belongs to a store serves it again. An empty one becomes a new server of the
  // store of `join`, or the new disk of the server that has this address already; without `join` it
  // waits until a store is created of it.
  static Result<std::unique_ptr<StoreServer>> open(StoreServerOptions options);
  ~StoreServer();

  // HOST:PORT. It does not change, so no lock is needed.
  const std::string& address() const { return description_.address; }
  ServerDescription description();
  // Fails if the folder was one of a store and is not any more, because its disk is gone, or if the
  // disk of a store is now in the place of an empty folder.
  Status check_disk();

 private:
  explicit StoreServer(StoreServerOptions options) : options_(std::move(options)) {}
  std::string epoch_path() const { return options_.folder + "/epoch"; }
  Status start();
  Status start_log();
  // Makes an empty folder that of the server which `description` names.
  Status become(const ServerDescription& description);
  // Joins the store of options_.join. `is_known`: the folder belongs to the store already, and the
  // metadata may not know its disk yet.
  Status join_store(bool is_known);
  // Tells the metadata of this server and its disk. `theirs` describes a server of the store.
  Status enter_metadata(RemoteLog& log, const ServerDescription& theirs, bool is_known);
  // Returns false if another server has joined at the same moment, so that this one must try again.
  Result<bool> try_to_enter(RemoteLog& log, ServerDescription theirs, bool& is_known);

  Visits::Serve serves_visitor();
  Status serve_one(const Socket& socket, std::span<std::byte> buffer);
  StoreReply answer(const StoreRequest& request, std::span<std::byte> payload,
                    std::span<const std::byte>& back);
  // Returns the chunks, or why the request is refused.
  Result<std::shared_ptr<ChunkFolder>> check_fence(const StoreRequest& request);
  Status raise_epoch(uint64_t epoch);
  Status assign(const StoreRequest& request);
  Status release(const StoreRequest& request);
  Status check_has_no_chunks();
  // Returns what is damaged of store.json, log.json and the log of the metadata, or "". With
  // `mends`, it is written again.
  Result<std::string> check_metadata(bool mends);
  Status check_identity(bool mends, std::string& problems);
  void mend_metadata();  // and tells the operator
  // Returns the store if this server leads its metadata.
  std::optional<StoreFile> led_store();
  static Result<StoreReply> list(ChunkFolder& chunks, const StoreRequest& request);
  // Tells the metadata that a chunk of this server is damaged.
  Status report_damage(ChunkName name);
  static Result<StoreReply> read_part(ChunkFolder& chunks, const StoreRequest& request,
                                      std::span<std::byte> room, std::span<const std::byte>& back);
  Result<StoreReply> ask_log(const StoreRequest& request);
  // Asks the leader for a client that cannot reach it.
  Result<StoreReply> pass_on(StoreRequest request, const std::string& leader, Deadline deadline);
  Result<AppliedAnswer> ask_running(RaftServer& log, const StoreRequest& request,
                                    Deadline deadline);
  Result<StoreReply> keep_log(const StoreRequest& request);
  Status set_log_servers(const StoreRequest& request);

  const StoreServerOptions options_;
  std::mutex release_;  // held while the server gives up a store
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<Reception> reception_;  // empty once visitors are received

  // Guards everything up to the empty line. Requests use the chunks and the log without the lock.
  std::mutex mutex_;
  ServerDescription description_;
  LogStart log_start_;   // its id in the log, and the servers with which its log began
  Socket log_listener_;  // closed while the log has it or others keep the metadata
  uint64_t epoch_ = 0;   // greatest token of a maintainer that was seen
  std::shared_ptr<ChunkFolder> chunks_;  // shared with requests under way
  std::shared_ptr<LogOfServer> log_;     // likewise; null: others keep the metadata
  std::string why_no_log_;               // its log was damaged when it started; "": it was not
  std::shared_ptr<StorePeer> leader_;    // likewise; to whom requests were passed on
  bool is_ending_ = false;               // nothing is passed on any more

  // Held by the requests of a maintainer that are served, and alone while epoch_ rises.
  std::shared_mutex maintenance_;
  std::unique_ptr<Visits> visits_;
  std::unique_ptr<BackgroundScrub> scrub_;
  std::unique_ptr<BackgroundRepair> repair_;
};

}  // namespace trireme
