#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/cost_model.h"
#include "comm/fabric.h"
#include "comm/group_shape.h"
#include "comm/shared_board.h"
#include "comm/transport.h"
#include "device/buffer.h"
#include "schema/node_map.h"
#include "watch/progress_page.h"

namespace trireme {

class Group;

// Returns how often a rank makes a call of a group. Tests return 0 (leave_out) or 2 to check that
// the error is noticed.
using CallHook = std::function<int(const Group& group, Collective, const CallSite& site)>;

struct WorldOptions {
  double timeout_s = 60.0;  // run.comm_timeout_s: deadline of every wait
  // checkpoint.timeout_s: how long file work of a single rank may take without progress.
  double progress_timeout_s = 300.0;
  // Simulated nodes, between which no memory is shared; nullopt: the nodes are the hosts.
  std::optional<NodeMap> nodes = {};
  int threads_per_rank = 1;  // number of threads that compute in each rank
  // The costs by which Algorithm::Auto decides.
  CommCost cost;
  // The caller counts the signals that ask this process to stop. May be null.
  const std::atomic<int>* stop_signals = nullptr;
  // Called from another thread when the ranks of this process have failed and cannot return. It
  // must end the process. If it is empty, ranks that hang are not watched (see RankWatch).
  std::function<void(const Error&)> on_hang;
  // In which the rank shows its agent where it is. Null: nobody looks.
  ProgressPage* page = nullptr;
  FaultHook fault_hook;  // only for tests
  CallHook call_hook;    // only for tests
};

// Memory for buffers that other ranks of this host read and write in place.
class SharedMemory {
 public:
  virtual ~SharedMemory() = default;
  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 protected:
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Memory of this process alone: ranks that are threads can access all of it.
class ProcessMemory : public SharedMemory {
 public:
  explicit ProcessMemory(int64_t bytes) : buffer_(Buffer::allocate(std::max<int64_t>(bytes, 1))) {
    data_ = buffer_.data();
    bytes_ = bytes;
  }

 private:
  Buffer buffer_;
};

// The platform of a rank: a thread of this process, or a process under MPI or of `trireme launch`.
// One object per rank.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual int rank() const = 0;
  virtual Fabric& fabric() = 0;
  virtual const std::vector<int>& node_of() const = 0;  // [world rank]
  virtual int spins() const = 0;                        // number of polls before a wait sleeps
  // Progress of this rank, visible to its peers and to RankWatch.
  virtual Progress& progress() { return fabric().cell(rank()).progress; }

  virtual std::unique_ptr<Transport> connect(const GroupShape& shape) = 0;
  // Returns nullopt if not all ranks of the group can see each other's memory.
  virtual std::optional<SharedView> view(const GroupShape& shape) = 0;
  virtual std::unique_ptr<SharedMemory> allocate_shared(int64_t bytes) = 0;

  // How long a message may still be in flight after its sender has left.
  virtual int64_t delivery_ns() const { return 0; }

  // True if any thread of the rank may drive transfers; false if only its communication thread may.
  virtual bool caller_drives() const = 0;
  // False if the communication thread must share a core with threads of ranks that compute.
  virtual bool has_core_for_thread() const { return true; }
  // Starts the communication thread, which runs `body`. MPI already has one, which has initialised
  // MPI.
  virtual std::thread start_thread(std::function<void()> body) {
    return std::thread(std::move(body));
  }
  // Wakes the communication thread, and a calling thread that waits for it. Any thread of the rank
  // may call it.
  virtual void wake_thread() { fabric().ring_own(rank()); }
  // Called by the communication thread between transfers, and once at its end.
  virtual void poll() {}
  virtual void leave_thread() {}
  // How many polls without work the communication thread makes before it sleeps. Each of them takes
  // time from a thread that trains on the same core, so there are few while all operations under
  // way are shared ones: their peers ring the bell.
  virtual int polls(bool /*moves_messages*/) const { return spins() / 20; }
  // Longest sleep of a communication thread. Events in shared memory wake it earlier.
  virtual int64_t nap_ns(bool moves_messages) const {
    return moves_messages ? 10'000'000 : 100'000'000;
  }
  // The communication thread sleeps until the bell rings or its nap is over. It has announced its
  // sleep, and `seen` is what announce_sleep has returned.
  virtual void sleep(Doorbell& bell, uint32_t seen, bool moves_messages) {
    Fabric::sleep(bell, seen, nap_ns(moves_messages));
  }

  // Algorithm::Native: makes the call `repeat` times with the backend's own collective, on the
  // communication thread, and returns the seconds of each. Returns an empty vector if the backend
  // has no such collective.
  virtual std::vector<double> run_native(const GroupShape&, const SharedBoard::Call&,
                                         int /*repeat*/) {
    return {};
  }
};

}  // namespace trireme
