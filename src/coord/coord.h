#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "comm/tcp/socket.h"

namespace trireme {

using LeaseId = int64_t;  // 0: no lease

// One key of a Coord, with its value and its version.
struct CoordEntry {
  std::string key;
  std::string value;
  // It grows with every change of any key. It is never used again, not even after the key was
  // removed. It is 0 if the key does not exist.
  int64_t version = 0;
  LeaseId lease = 0;  // the key vanishes with this lease

  friend bool operator==(const CoordEntry&, const CoordEntry&) = default;
};

struct CoordWrite {
  std::string key;
  std::optional<std::string> value;  // nullopt removes the key
  int64_t expected_version = 0;      // 0: the key must not exist
  LeaseId lease = 0;
};

struct CoordSwap {
  bool is_written = false;
  CoordEntry entry;  // the key as it is now
};

// A small store that all hosts of a job agree on: keys with versions, and leases that end when
// their owner falls silent. Every call takes effect at one moment between its start and its end.
// A call that is not answered by its deadline returns an error, which names the store. After an
// error the call may have taken effect nevertheless, and may even take effect later.
class Coord {
 public:
  virtual ~Coord() = default;
  virtual std::string name() const = 0;  // such as file:my/coord

  virtual Result<CoordEntry> get(const std::string& key, Deadline deadline) = 0;
  // Returns the entries whose keys begin with `prefix`, sorted by key, as they were at one moment.
  virtual Result<std::vector<CoordEntry>> list(const std::string& prefix, Deadline deadline) = 0;
  // Writes or removes a key if it has the expected version. A write that is bound to a lease that
  // has ended is an error.
  virtual Result<CoordSwap> compare_and_swap(const CoordWrite& write, Deadline deadline) = 0;

  // Grants a lease that ends `seconds` after it was renewed the last time. It may end later, but
  // not earlier.
  virtual Result<LeaseId> grant(double seconds, Deadline deadline) = 0;
  // Renews a lease. Returns false if it has ended; then its keys are gone.
  virtual Result<bool> keep_alive(LeaseId lease, Deadline deadline) = 0;
  // Ends a lease and removes its keys.
  virtual Status revoke(LeaseId lease, Deadline deadline) = 0;
};

// Opens the store of a job: "file:DIR" or "etcd:HOST:PORT". The keys of different jobs in one etcd
// are kept apart by `job`.
Result<std::unique_ptr<Coord>> open_coord(const std::string& where, const std::string& job);

// Waits until the key has another version than `known_version`. Returns an error at the deadline.
Result<CoordEntry> wait_for_change(Coord& coord, const std::string& key, int64_t known_version,
                                   Deadline deadline);

// Describes a call, for a protocol that makes no calls itself.
struct CoordCall {
  enum class Kind { List, CompareAndSwap, Grant, KeepAlive, Revoke };
  Kind kind = Kind::List;
  std::string prefix = {};  // List
  CoordWrite write = {};    // CompareAndSwap
  LeaseId lease = 0;        // KeepAlive, Revoke
  double seconds = 0.0;     // Grant
};

struct CoordReply {
  std::vector<CoordEntry> entries;  // List, and after CompareAndSwap the key as it is now
  bool is_done = true;              // CompareAndSwap: was written; KeepAlive: the lease lives
  LeaseId lease = 0;                // Grant
};

Result<CoordReply> perform(Coord& coord, const CoordCall& call, Deadline deadline);

}  // namespace trireme
