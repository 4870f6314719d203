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
};

// An open store: its metadata, and the disks of its chunks. put_files(), get_file(), repair() and
// other functions work on it.
class Store {
 public:
  // Makes the folders that do not exist, and refuses those that are not empty. `domains` has the
  // failure domain of each folder. If it is empty, each folder is a domain of its own.
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
  double straggler_s() const { return options_.straggler_s; }
  WorkQueue& queue() { return work_; }
  ReadTimes& read_times() { return read_times_; }

  // Gives the command a number of its own and applies it.
  Result<std::vector<uint64_t>> command(MetadataCommand command);
  // The same for a command that has no tokens as its answer.
  Status change(MetadataCommand command);
  Result<Overview> overview();
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

  // Removes chunks that no file needs any more. In a shared store only the maintainer does so; for
  // other clients nothing happens.
  Status collect_garbage();

 private:
  Store(const StoreFile& file, const StoreOptions& options, std::vector<std::string> addresses);
  static Result<std::unique_ptr<Store>> open_shared(const StoreFile& file,
                                                    const StoreOptions& options);
  void open_servers(const Overview& overview);
  Status open_log();
  Status open_targets(const Overview& overview);
  Status take_in_replaced(const Overview& overview);
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
  ReadTimes read_times_;
  WorkQueue work_;
};

}  // namespace trireme
