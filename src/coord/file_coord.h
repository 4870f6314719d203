#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "coord/coord.h"

namespace trireme {

// A Coord in a folder: one small file with all keys and leases, replaced as a whole (synced and
// renamed) under a lock on another one. The folder must be on a file system whose locks (flock)
// hold for all hosts that use it; a host's own disk and NFS 4 do, and one without locks is refused.
//
// No clocks are compared. A lease has a counter that its owner counts up. Each user of the folder
// ends a lease whose counter it has seen unchanged for the length of the lease, by its own clock.
// So leases end only while somebody uses the folder.
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
  // Reads the content, lets `change` change it, and writes it if that returns true.
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
