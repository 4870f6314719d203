#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "comm/tcp/handshake.h"
#include "raft/raft_message.h"

namespace trireme {

// Messages between the servers of a log over TCP. Like any network it may lose and reorder them:
// what cannot be sent soon is dropped. Both sides of a connection prove that they know the secret.
class RaftNetwork {
 public:
  // Called by several threads, one message at a time for each sender.
  using Receiver = std::function<void(RaftMessage)>;

  RaftNetwork(Socket listener, const std::string& secret, TcpLog log, Receiver receiver);
  ~RaftNetwork();

  const std::string& address() const { return address_; }
  void send(const std::string& address, const RaftMessage& message);

 private:
  struct Peer {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::string> frames;
    bool is_stopping = false;
    std::thread thread;
  };
  struct Visit {
    Socket socket;
    bool has_ended = false;  // guarded by mutex_
    std::thread thread;
  };

  void receive_visitors();
  void receive_messages(Visit& visit);
  void send_frames(const std::string& address, Peer& peer);
  bool is_stopping();

  const std::string secret_;
  const TcpLog log_;
  const Receiver receiver_;
  Reception reception_;
  const std::string address_;

  std::mutex mutex_;
  bool is_stopping_ = false;                            // guarded by mutex_
  std::list<Visit> visits_;                             // of the thread that receives visitors
  std::map<std::string, std::unique_ptr<Peer>> peers_;  // by address; guarded by mutex_
  std::thread thread_;
};

}  // namespace trireme
