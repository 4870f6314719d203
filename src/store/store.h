#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/file_lock.h"
#include "raft/command_log.h"
#include "store/chunk_target.h"
#include "store/disk_faults.h"
#include "store/maintainer_lease.h"
#include "store/metadata.h"
#include "store/read_times.h"
#include "store/store_file.h"
#include "store/store_peer.h"
#include "store/work_queue.h"

namespace trireme {

// Write puts and removes files. Maintain also moves chunks, and removes those that no file needs.
// In a store in folders both are the same, and one process at a time has either of them.
enum class StoreAccess { Read, Write, Maintain };

struct StoreOptions {
  StoreAccess access = StoreAccess::Read;
  std::string lock_path = {};  // held while the store is open for writing; "": no lock
  double lock_wait_s = 10.0;   // until another process gives it back
  DiskFaults* faults = nullptr;
  std::string secret = {};  // of a store whose servers are processes
  // Takes every empty folder as a new disk, also where no disk is mounted or the server is drained.
  bool takes_new_disks = false;
  uint32_t most_chunk_bytes = uint32_t(kMostChunkBytes);  // of a new store
  double straggler_s = 2.0;  // a chunk that takes so much longer than the others is left out
  // A writer to servers that has not renewed its tokens for so long is taken for dead by a scrub.
  double lease_s = 120.0;
  // Of a maintainer: it begins only if the newest token of a maintainer is this one. 0: if no other
  // one is at work. Without a value, it takes the place of another one.
  std::optional<uint64_t> maintains_after = std::nullopt;
  double metadata_s = 60.0;  // how long a command waits for an answer of the metadata
  int64_t most_moving_bytes = int64_t{256} << 20;  // of blocks in memory that a repair moves
};

struct ReplacedLogServer {
  std::vector<LogServer> servers;     // those that keep the metadata now
  std::vector<std::string> not_told;  // addresses of servers that could not be told who they are
};

// An open store: its metadata, and the disks of its chunks. put_files(), get_file(), repair() and
// other functions work on it.
class Store {
 public:
  // Makes the folders that do not exist, and refuses those that are not empty. `domains` has the
  // failure domain of each folder. If it is empty, each folder is a domain of its own. After an
  // error the folders are as before.
  static Status create(const StoreFile& file, const std::vector<std::string>& domains,
                       const StoreOptions& options);
  // Opening for writing also takes in empty disks that have replaced others, whose chunks are then
  // in the queue for repair, and forgets writers that have died.
  static Result<std::unique_ptr<Store>> open(const StoreFile& file, const StoreOptions& options);
  // Waits for reads and writes that are still under way. Those of servers are broken off. Those of
  // folders last until the disk has done them.
  ~Store();

  const StoreFile& file() const { return file_; }
  const StoreCode& code() const { return file_.code; }
  DiskFaults* faults() const { return options_.faults; }  // may be null
  double straggler_s() const { return options_.straggler_s; }
  double lease_s() const { return options_.lease_s; }
  int64_t most_moving_bytes() const { return options_.most_moving_bytes; }
  WorkQueue& queue() { return work_; }
  ReadTimes& read_times() { return read_times_; }

  // Gives the command a number of its own and applies it. Without a deadline, it is that of the
  // options.
  Result<std::vector<uint64_t>> command(MetadataCommand command,
                                        std::optional<double> deadline_s = std::nullopt);
  // The same for a command that has no tokens as its answer.
  Status change(MetadataCommand command, std::optional<double> deadline_s = std::nullopt);
  // Lets the metadata know how far a scrub, a repair or a drain is, so that `status` shows it.
  void publish(const UpkeepProgress& progress);
  // False if the store is in folders and no process writes to it.
  bool may_have_maintainer() const;
  // With the garbage of this server and of those behind it.
  Result<Overview> overview(int first_server = 0);
  Result<FileAnswer> ask(const MetadataQuestion& question);
  // Returns all files at or below a path; of the whole store if the path is "".
  Result<std::vector<WrittenFile>> files(const std::string& path);

  int num_servers() const { return int(targets_.size()); }
  // True if its servers are processes, which other clients use at the same time.
  bool is_shared() const { return !file_.servers.empty(); }
  // Null if the disk cannot be used now.
  ChunkTarget* target(int server) { return targets_[size_t(server)].get(); }
  const std::string& why_unusable(int server) const { return why_unusable_[size_t(server)]; }
  std::vector<bool> usable() const;
  // The name of a server, with the reason if it cannot be used.
  std::string describe(int server) const;

  // Asks for each server what is wrong with the copy of the metadata that it has; "": nothing, or
  // it has none, or does not answer. Reads all copies.
  std::vector<std::string> metadata_problems();
  // Writes copies again that are damaged or missing, or old, and returns their number.
  Result<int64_t> mend_metadata();

  // Removes chunks that no file needs any more. Those that a server does not remove now stay
  // garbage, and a later call comes back to them. In a shared store only the maintainer does so;
  // for other clients nothing happens.
  Status collect_garbage();

  // Servers that run with an empty disk at the address of one whose disk is gone.
  bool has_new_disks() const { return !new_disks_.empty(); }
  bool has_new_disk(int server) const;
  // True if all empty disks are wanted, also those of drained servers.
  bool takes_new_disks() const { return options_.takes_new_disks; }
  // Makes these the disks of their servers. Their chunks are then in the queue for repair. Only the
  // maintainer does so.
  Status take_in_new_disks();
  // Lets the server `fresh`, which keeps no metadata, keep them in the place of the server `old`. A
  // server whose disk was lost may have its own place again. Names or addresses of servers. The
  // metadata can be used meanwhile. After an error, call it again to resume. Only the maintainer of
  // a shared store does so.
  Result<ReplacedLogServer> replace_log_server(const std::string& old, const std::string& fresh);

 private:
  Store(const StoreFile& file, const StoreOptions& options, std::vector<std::string> addresses);
  static Result<std::unique_ptr<Store>> open_shared(const StoreFile& file,
                                                    const StoreOptions& options);
  // A server that was asked who it is.
  struct NewDisk {
    size_t server = 0;
    ServerDescription description;
  };
  void open_servers(const Overview& overview);
  void add_server(size_t server, const ServerRecord& record,
                  const Result<ServerDescription>& found);
  Status take_in_new_disk(const NewDisk& disk, ServerRecord record);
  StoreRequest request_to(StoreOp op, const ServerRecord& record) const;
  // Tells all servers which of them keep the metadata now.
  ReplacedLogServer tell_log_servers(const Overview& overview,
                                     const std::vector<LogServer>& servers);
  Status collect_garbage_of(int server);
  // Begins to renew the token of a maintainer.
  void hold_lease(uint64_t token);
  // Returns what each server of a shared store has found. `what`: kMend, or "".
  std::vector<std::string> check_metadata_of_servers(const std::string& what);
  Status open_log();
  Status open_targets(const Overview& overview);
  Status take_in_replaced(const Overview& overview);
  // Writes store.json again in folders of this store in which it is damaged or missing, and returns
  // their number.
  Result<int64_t> mend_identities(const Overview& overview);
  // True if the chunks and the log in a folder show that it is the one of this server.
  Result<bool> has_contents_of(size_t server);
  // Returns why an empty folder is not a new disk, or "" if it may be one.
  std::string why_no_new_disk(size_t server) const;

  const StoreFile file_;
  const StoreOptions options_;
  std::optional<FileLock> lock_;
  Metadata metadata_;
  std::unique_ptr<CommandLog> log_;
  std::vector<std::unique_ptr<ChunkTarget>> targets_;
  std::vector<std::shared_ptr<StorePeer>> peers_;  // of servers that are processes
  std::vector<std::string> why_unusable_;
  std::vector<std::string> names_;
  const std::vector<std::string> addresses_;  // of the servers: their folders, or HOST:PORT
  uint64_t maintainer_ = 0;                   // token of this maintainer of a shared store
  std::vector<int> replaced_;  // servers with an empty disk, or one that was not taken in fully
  std::vector<NewDisk> new_disks_;      // the same of a shared store
  std::vector<LogServer> log_servers_;  // of a shared store: those that keep the metadata
  ReadTimes read_times_;
  WorkQueue work_;
  std::unique_ptr<MaintainerLease>
      lease_;                          // of a maintainer; in folders, once it has told progress
  int64_t num_mended_identities_ = 0;  // store.json of folders, when the store was opened
};

}  // namespace trireme
