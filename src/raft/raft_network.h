#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "comm/tcp/visits.h"
#include "raft/raft_message.h"

namespace trireme {

// Messages between the servers of a log over TCP. Like any network it may lose and reorder them:
// what cannot be sent soon is dropped. Both sides of a connection prove that they know the secret.
// If one of its threads fails, its connection ends, and the log for the operator says why.
class RaftNetwork {
 public:
  // Called by several threads, one message at a time for each sender.
  using Receiver = std::function<void(RaftMessage)>;

  RaftNetwork(Socket listener, const std::string& secret, TcpLog log, const Receiver& receiver);
  ~RaftNetwork();

  const std::string& address() const { return address_; }
  void send(const std::string& address, const RaftMessage& message);

 private:
  struct Frame {
    std::string bytes;
    std::shared_ptr<const std::string> snapshot;  // sent behind them; shared by all peers
  };
  struct Peer {
    std::mutex mutex;  // guards everything but the thread
    std::condition_variable changed;
    std::deque<Frame> frames;
    size_t queued_bytes = 0;    // of the frames without their snapshots
    bool has_snapshot = false;  // one waits or is being sent, so another one is dropped
    int fd = -1;                // of the connection
    bool is_stopping = false;
    std::thread thread;
  };

  void send_frames(const std::string& address, Peer& peer);
  Status send_frame(const std::string& address, Peer& peer, Socket& socket, const Frame& frame);
  Peer* peer_at(const std::string& address);
  std::shared_ptr<const std::string> encoded(const std::shared_ptr<const LogSnapshot>& snapshot);
  void say(const std::string& sentence);

  const std::string secret_;
  const TcpLog log_;
  const std::string address_;

  std::mutex mutex_;
  bool is_stopping_ = false;                            // guarded by mutex_
  std::map<std::string, std::unique_ptr<Peer>> peers_;  // by address; guarded by mutex_
  // The snapshot that was encoded last, and its bytes, for as long as a frame needs them. They
  // belong to the thread that calls send().
  std::weak_ptr<const LogSnapshot> snapshot_;
  std::weak_ptr<const std::string> snapshot_bytes_;
  std::unique_ptr<Visits> visits_;
};

}  // namespace trireme
