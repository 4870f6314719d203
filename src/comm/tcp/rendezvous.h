#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "comm/tcp/handshake.h"

namespace trireme {

// How long ranks that start may take to meet. A short deadline of waits must not end a job whose
// ranks start slowly on a busy machine.
inline double join_timeout_s(double comm_timeout_s) { return std::max(20.0, comm_timeout_s); }

// The place at which the ranks of a job meet, kept by the process that launches them. It gathers
// the ranks of one epoch after the other: if a rank is lost, the launcher calls gather() again with
// the next epoch, and ranks that have survived join again beside the new ones.
class Rendezvous {
 public:
  // Listens at `address`, HOST:PORT.
  static Result<Rendezvous> open(const std::string& address, std::string secret, TcpLog log);
  std::string address() const { return reception_.address(); }

  // Waits until all ranks of the epoch have joined, tells each of them where the others are, and
  // returns once they agree which of them share a host. An error names the ranks that are missing
  // at the deadline. Returns an error soon after `is_cancelled` has become true.
  Status gather(uint64_t epoch, int size, Deadline deadline, const std::atomic<bool>& is_cancelled);

 private:
  explicit Rendezvous(Reception reception) : reception_(std::move(reception)) {}
  Result<std::vector<Socket>> receive_ranks(uint64_t epoch, int size, Deadline deadline,
                                            const std::atomic<bool>& is_cancelled);

  Reception reception_;
};

// A rank's place in a job, as the launcher gives it to the process.
struct TcpPlace {
  std::string rendezvous;  // HOST:PORT
  std::string secret;
  uint64_t epoch = 1;
  int rank = 0;
  int size = 1;
  std::string host;       // own address for peers of other hosts; "": that towards the rendezvous
  std::string node = {};  // ranks with different texts share no memory, even on one host
  TcpLog log = {};
};

// A rank knows this after it has joined.
struct JoinedJob {
  Socket listener;                     // for peers of other hosts
  std::vector<Introduction> ranks;     // [world rank]
  std::vector<int32_t> first_of_node;  // [world rank]; ranks of one node share memory
};

// Joins the job. `share` is called with the introductions of the ranks of this host and returns
// whether this rank can share memory with all of them.
Result<JoinedJob> join_job(const TcpPlace& place, const WindowAddress& window, int64_t inbox,
                           Deadline deadline,
                           const std::function<bool(const std::vector<Introduction>&)>& share);

// Connects this rank with all ranks of other nodes. Returns a socket for each of them, [world
// rank].
Result<std::vector<Socket>> connect_peers(const TcpPlace& place, JoinedJob job, Deadline deadline);

}  // namespace trireme
