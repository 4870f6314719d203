#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "comm/tcp/handshake.h"
#include "store/store.h"
#include "store/upkeep_meter.h"

namespace trireme {

struct BackgroundRepairOptions {
  double round_s = 0.0;  // from one look at the store to the next; 0: nothing is repaired
  // Chunks of a server that does not answer for so long are moved to others.
  double lost_server_s = 600.0;
  // An empty disk that a server has for so long is taken in, if nothing needs the old one.
  double new_disk_s = 10.0;
  double bytes_per_s = 0.0;                   // of the chunks that are written; 0: no limit
  double lease_s = MaintainerLease::kLeaseS;  // a silent maintainer is dead then
};

// Works on the queue of repairs of a shared store, on a thread of its own. The server that leads
// the metadata does so, and only while no command maintains the store; a command that begins takes
// its place.
class BackgroundRepair {
 public:
  // Returns the store if this server leads its metadata now.
  using LedStore = std::function<std::optional<StoreFile>()>;

  BackgroundRepair(const BackgroundRepairOptions& options, std::string secret, LedStore led_store,
                   TcpLog log);
  ~BackgroundRepair();

 private:
  // Which servers cannot be used, and since when.
  struct Absence {
    int64_t since_ns = 0;
    bool has_new_disk = false;
  };
  // What a round would do.
  struct Work {
    bool has_queue = false;
    bool has_new_disk = false;
    std::vector<int> lost;  // servers whose chunks are moved
    bool is_any() const { return has_queue || has_new_disk || !lost.empty(); }
  };

  void run();
  void do_round();
  Work look(Store& store, const Overview& overview);
  // True if no command maintains the store.
  bool may_begin(const Overview& overview);
  Status do_work(const StoreFile& file, const Work& work, uint64_t after);
  Status keep_rate(const UpkeepProgress& progress);
  bool rest(double seconds);  // false: it is over
  StoreOptions options_of(StoreAccess access) const;

  const BackgroundRepairOptions options_;
  const std::string secret_;
  const LedStore led_store_;
  const TcpLog log_;
  std::map<int, Absence> absent_;
  std::pair<uint64_t, uint64_t> maintainer_;  // its token and renewals in the last round
  int64_t maintainer_ns_ = 0;                 // since when these have not changed
  std::string state_in_vain_;                 // of the store after work that achieved nothing
  int64_t in_vain_ns_ = 0;
  std::string told_;
  std::mutex mutex_;
  std::condition_variable has_ended_;
  bool is_over_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace trireme
