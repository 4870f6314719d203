#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "comm/tcp/byte_stream.h"
#include "comm/tcp/wire.h"

namespace trireme {

// A transfer from its post to its end. Its number tells the two ranks which transfer a frame means.
struct TcpMessage {
  Transfer* transfer = nullptr;  // null: not in use
  uint32_t number = 0;
  int peer = -1;                // world rank
  uint32_t number_of_peer = 0;  // of a send, once it is accepted
  int64_t moved = 0;            // payload bytes that were written or have landed
  bool is_accepted = false;     // the receiver has taken the announcement
  bool is_done = false;
};

// Frames between this rank and one other. It cuts long payloads into segments, which take turns
// with each other and with short frames, so that no message holds up the others.
class TcpLink {
 public:
  // Gets the frames that have arrived. Errors that it returns break the link.
  class Receiver {
   public:
    virtual ~Receiver() = default;
    virtual Status on_frame(TcpLink& link, const TcpFrame& frame, Bytes body) = 0;
    // Returns the message to which a segment belongs; null if it was cancelled.
    virtual Result<TcpMessage*> on_payload(TcpLink& link, const TcpFrame& frame) = 0;
  };

  TcpLink(int peer, uint64_t epoch, std::unique_ptr<ByteStream> stream);
  int peer() const { return peer_; }
  const ByteStream& stream() const { return *stream_; }

  // Sends a frame. Its body is copied.
  void send(TcpFrame frame, Bytes body, Bytes more_body = {});
  // Sends the payload of an accepted message, from the second call of flush() on. Before that, the
  // caller may accept messages of the peer: its answer would wait behind the payload, and the two
  // directions of an exchange would take turns. Sets is_done once nothing of the message is needed
  // any more.
  void send_payload(TcpMessage& message);
  // The memory of the message may no longer be used.
  void forget(TcpMessage& message);
  bool has_output() const {
    return segment_left_ > 0 || out_begin_ < out_.size() || !sends_.empty() || !accepted_.empty();
  }

  // Both do what is possible without waiting, and return true if bytes have moved.
  bool flush();
  Result<bool> receive(Receiver& receiver);
  void close() { stream_->close(); }
  // Called with the epoch of every frame that was dropped because it is of another epoch.
  std::function<void(uint64_t)> on_other_epoch;

 private:
  void begin_segment();
  void end_segment();
  void add_checksums(TcpFrame& frame, Bytes body, Bytes more_body = {}) const;
  bool write_some();
  Result<bool> read_some();
  Result<bool> take_frame(Receiver& receiver);
  Status begin_payload(Receiver& receiver, const TcpFrame& frame);
  Status land_buffered();
  Status end_landing(int64_t bytes);
  int64_t buffered() const { return in_end_ - in_begin_; }

  int peer_;
  uint64_t epoch_;
  std::unique_ptr<ByteStream> stream_;
  bool has_checksums_;

  std::vector<std::byte> out_;  // short frames; those before out_begin_ are written
  size_t out_begin_ = 0;
  std::vector<TcpMessage*> accepted_;  // since the last flush()
  std::vector<TcpMessage*> sends_;     // in turns; the first one sends the next segment
  TcpFrame segment_head_;
  TcpMessage* segment_of_ = nullptr;
  const std::byte* segment_ = nullptr;
  int64_t segment_bytes_ = 0;
  int64_t segment_left_ = 0;       // head included
  std::vector<std::byte> orphan_;  // the rest of a segment whose message was cancelled

  std::vector<std::byte> in_;
  int64_t in_begin_ = 0;
  int64_t in_end_ = 0;
  TcpMessage* landing_ = nullptr;
  int64_t landing_bytes_ = 0;  // of the segment that arrives
  int64_t landing_left_ = 0;
  TcpFrame landing_frame_;          // its head
  std::vector<std::byte> staging_;  // a segment that must be reduced, or that nobody wants
};

}  // namespace trireme
