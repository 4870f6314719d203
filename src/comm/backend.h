#pragma once

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

namespace trireme {

class Group;

// How often a rank makes a call of a group: not once, but never (leave_out) or twice, in tests of
// what notices that.
using CallHook = std::function<int(const Group& group, Collective, const CallSite& site)>;

struct WorldOptions {
  double timeout_s = 60.0;  // run.comm_timeout_s: the deadline of every wait
  // checkpoint.timeout_s: how long work that a rank does alone may go without progress.
  double progress_timeout_s = 300.0;
  int ranks_per_node = 0;  // local ranks: nodes to pretend, which share no memory; 0: all on one
  // What Algorithm::Auto decides by.
  CommCost cost;
  // The caller counts here the signals that ask this process to stop; may be null.
  const std::atomic<int>* stop_signals = nullptr;
  // Called from another thread when the ranks of this process have failed and cannot return: the
  // process must then end itself. Empty: ranks that hang are not watched (see RankWatch).
  std::function<void(const Error&)> on_hang;
  FaultHook fault_hook;  // tests only
  CallHook call_hook;    // tests only
};

// Memory that every rank of this host reaches.
class SharedMemory {
 public:
  virtual ~SharedMemory() = default;
  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 protected:
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

// What a rank stands on: threads of a process, or processes under MPI. One object per rank.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual int rank() const = 0;
  virtual Fabric& fabric() = 0;
  virtual const std::vector<int>& node_of() const = 0;  // [world rank]
  virtual int spins() const = 0;                        // polls before a wait sleeps
  // The rank shows its work here to its peers and to RankWatch.
  virtual Progress& progress() { return fabric().cell(rank()).progress; }

  virtual std::unique_ptr<Transport> connect(const GroupShape& shape) = 0;
  // Nothing where the group's ranks do not all see each other's memory.
  virtual std::optional<SharedView> view(const GroupShape& shape) = 0;
  virtual std::unique_ptr<SharedMemory> allocate_shared(int64_t bytes) = 0;

  // How long a message may still be on its way once its sender has left.
  virtual int64_t delivery_ns() const { return 0; }

  // Whether any thread of the rank may drive transfers, or only its communication thread.
  virtual bool caller_drives() const = 0;
  // The communication thread, running `body`. MPI has one already, which has initialised it.
  virtual std::thread start_thread(std::function<void()> body) {
    return std::thread(std::move(body));
  }
  // Its duty between transfers, and its last one.
  virtual void poll() {}
  virtual void leave_thread() {}
  // How often the communication thread looks in vain before it sleeps.
  virtual int polls(bool /*operations_under_way*/) const { return spins() / 20; }
  // Longest sleep of a communication thread, which is rung for what happens in shared memory.
  virtual int64_t nap_ns(bool operations_under_way) const {
    return operations_under_way ? 10'000'000 : 100'000'000;
  }

  // Algorithm::Native: makes the call `repeat` times with the backend's own collective, on the
  // communication thread, and returns the seconds of each. Empty where there is none.
  virtual std::vector<double> run_native(const GroupShape&, const SharedBoard::Call&,
                                         int /*repeat*/) {
    return {};
  }
};

}  // namespace trireme
