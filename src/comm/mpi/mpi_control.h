#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/fabric.h"

namespace trireme {

// Control messages between ranks of different hosts: aborts with the first cause, what a rank waits
// for, the progress of its own work, and that it has left. Used on the communication thread.
class MpiControl {
 public:
  // `remote` lists the world ranks of other hosts.
  MpiControl(MPI_Comm comm, int rank, std::vector<int> remote, Fabric& fabric);
  ~MpiControl();

  void poll();  // receives messages and sends news
  // May be called from any thread. The next poll tells all other hosts.
  void spread_abort(int rank, const Error& error);
  void say_left();
  // Polls until everything is sent, but no longer than `timeout_ns`.
  void flush(int64_t timeout_ns);

 private:
  enum class Kind : int32_t { Abort, Waits, Left, Progress };
  struct Message {
    Kind kind;
    int32_t rank;
    ErrorKind error_kind;        // Abort
    WaitRecord wait;             // Waits
    uint64_t progress = 0;       // Progress
    ProgressCall progress_call;  // Progress
    char cause[sizeof FabricHeader::cause];
  };
  struct Sending {
    std::shared_ptr<Message> message;  // shared by all sends of one broadcast
    std::vector<MPI_Request> requests;
  };

  void send_to_all(std::shared_ptr<Message> message, int64_t bytes);
  void receive(const Message& message);
  void announce_wait();
  void announce_progress();

  MPI_Comm comm_;
  int rank_;
  std::vector<int> remote_;
  Fabric& fabric_;
  Message incoming_;
  std::vector<Sending> sending_;
  WaitRecord announced_wait_;
  int64_t last_announced_ns_ = 0;
  uint64_t announced_progress_ = 0;
  int64_t progress_announced_ns_ = 0;
  std::mutex mutex_;
  std::atomic<bool> abort_pending_{false};
  int abort_rank_ = 0;
  Error abort_error_;
};

}  // namespace trireme
