#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "coord/coord.h"

namespace trireme {

// A Coord in a folder. One small file has all keys and leases. It is replaced as a whole (synced
// and renamed) while a lock (flock) on another file is held. The folder must be on a file system
// whose locks hold for all hosts that use it. Local disks (for one host) and NFS 4 have such locks;
// a file system without locks is refused. Deadlines limit the wait for the lock, but not the disk:
// a call hangs as long as the file system does.
//
// No clocks are compared. A lease has a counter, which each renewal increments. Each user of the
// folder ends a lease whose counter it has seen unchanged for the length of the lease, by its own
// clock. So leases end only while somebody uses the folder.
class FileCoord : public Coord {
 public:
  static Result<std::unique_ptr<FileCoord>> open(const std::string& folder);
  std::string name() const override { return "file:" + folder_; }

  Result<CoordEntry> get(const std::string& key, Deadline deadline) override;
  Result<std::vector<CoordEntry>> list(const std::string& prefix, Deadline deadline) override;
  Result<CoordSwap> compare_and_swap(const CoordWrite& write, Deadline deadline) override;
  Result<LeaseId> grant(double seconds, Deadline deadline) override;
  Result<bool> keep_alive(LeaseId lease, Deadline deadline) override;
  Status revoke(LeaseId lease, Deadline deadline) override;

 private:
  struct Lease {
    double seconds = 0.0;
    int64_t renewals = 0;
  };
  struct Content {
    int64_t revision = 0;
    std::map<std::string, CoordEntry> entries;
    std::map<LeaseId, Lease> leases;
  };
  struct Seen {
    int64_t renewals = -1;
    int64_t since_ns = 0;
  };

  explicit FileCoord(std::string folder) : folder_(std::move(folder)) {}
  // Reads the content, ends leases, and calls `change`. Writes the content if a lease has ended or
  // `change` returns true.
  Status under_lock(Deadline deadline, const std::function<Result<bool>(Content&)>& change);
  Result<Content> read() const;
  Status write(const Content& content) const;
  bool end_leases(Content& content, int64_t read_ns);
  static void end(Content& content, LeaseId lease);
  std::string content_path() const { return folder_ + "/coord.json"; }

  std::string folder_;
  std::map<LeaseId, Seen> seen_;
};

}  // namespace trireme
