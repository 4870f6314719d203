#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "comm/tcp/handshake.h"
#include "comm/tcp/tcp_link.h"

namespace trireme {

// The links of one rank, and the messages that have arrived but were not taken yet. A short message
// comes with its payload and waits here. A long one is only announced; its payload is sent once the
// receiver has accepted it, and goes straight to its target. So memory is bounded: of each sender
// at most kTcpUntaken messages wait in each lane of each group, and the sender holds back the
// others. Used only on the communication thread.
class Mailbox : private TcpLink::Receiver {
 public:
  Mailbox(int rank, uint64_t epoch, Fabric& fabric, TcpLog log);
  ~Mailbox() override;
  void add_link(int peer, std::unique_ptr<ByteStream> stream);
  void add_link(int peer, std::unique_ptr<SocketStream> stream);
  bool has_sockets() const { return !sockets_.empty(); }

  // A message that waits to be taken.
  struct Waiting {
    TcpFrame frame;
    Announcement announcement;
  };

  // For TcpTransport. `peer` is a world rank.
  TcpMessage& begin(Transfer& transfer, int peer);
  void end(TcpMessage& message);  // also of a transfer that was cancelled
  // Announces a message to its receiver. Returns false if too many wait there already.
  bool announce(TcpMessage& message, int group);
  // Returns the oldest message with this tag; null if there is none.
  const Waiting* find(int peer, int group, Lane lane, int tag);
  // Takes it: a short one is removed, the payload of a long one will go to `into`.
  void take(const Waiting& waiting, TcpMessage& into);

  void send_news(const NewsMessage& news);  // to all ranks of other hosts
  // Receives and sends what is possible now. Returns true if anything has moved.
  bool poll();
  // Waits for a socket or for wake(), but no longer than this. Returns at once if wake() was called
  // since the last wait, or if announce() or take() has moved anything: an operation that was
  // tested before may have ended by it.
  void wait_for_sockets(int64_t most_ns);
  // Ends the wait for sockets, or the next one if nobody waits. Any thread may call it.
  void wake() const;
  // True while transfers over sockets are under way.
  bool awaits_sockets() const { return socket_messages_ > 0; }
  // Sends what is left, then says that nothing more will come, and waits for the same from the
  // ranks of other hosts; no longer than until the deadline.
  void finish(Deadline deadline);
  // News of other ranks are given to this function.
  std::function<void(const NewsMessage&)> on_news;

 private:
  // Messages of one sender in one lane of one group.
  struct Port {
    int group = 0;
    Lane lane = Lane::Collective;
    int announced = 0;  // by this rank to the peer, and not taken yet
    int num_waiting = 0;
    std::array<uint8_t, kTcpUntaken> order;  // places of the waiting messages, oldest first
    uint64_t used = 0;                       // bit of each place
    std::unique_ptr<Waiting[]> places;
    std::unique_ptr<std::byte[]> payloads;  // kTcpInlineBytes for each place
  };
  struct Peer {
    std::unique_ptr<TcpLink> link;
    SocketStream* socket = nullptr;  // null: within the host
    std::deque<Port> ports;
    bool is_closed = false;
  };

  Status on_frame(TcpLink& link, const TcpFrame& frame, Bytes body) override;
  Result<TcpMessage*> on_payload(TcpLink& link, const TcpFrame& frame) override;
  Status on_announce(TcpLink& link, const TcpFrame& frame, Bytes body);
  Status on_accept(TcpLink& link, const TcpFrame& frame);
  Port& port_of(int peer, int group, Lane lane);
  Peer& peer_of(int peer) { return peers_[size_t(peer)]; }
  bool poll_link(Peer& peer);
  void take_events(int64_t most_ns);
  void lose(Peer& peer, const Error& error);
  bool is_finished() const;

  int rank_;
  uint64_t epoch_;
  Fabric& fabric_;
  TcpLog log_;
  int epoll_ = -1;
  int wake_ = -1;                    // an eventfd in the epoll set
  std::vector<Peer> peers_;          // [world rank]
  std::vector<int> linked_;          // world ranks with a link
  std::vector<int> sockets_;         // those of other hosts
  std::deque<TcpMessage> messages_;  // by number
  std::vector<TcpMessage*> free_;
  int socket_messages_ = 0;
  bool must_look_ = false;  // at all operations, before the next wait
  bool other_epoch_said_ = false;
  bool is_leaving_ = false;  // the end of a connection is no news then
};

}  // namespace trireme
