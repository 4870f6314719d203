#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "store/store_wire.h"

namespace trireme {

// The connections of a client to one server. Any thread may call it. Every call ends by its
// deadline.
class StorePeer {
 public:
  StorePeer(std::string address, std::string secret)
      : address_(std::move(address)), secret_(std::move(secret)) {}

  const std::string& address() const { return address_; }
  // Sends a request and returns the reply, or an error after `seconds`. `payload` is the chunk of a
  // Write. The chunk that a Read returns fills `to`, which is cut to its length. A request that
  // finds an old connection broken is sent again over a new one, so it may reach the server twice.
  Result<StoreReply> ask(StoreRequest request, std::span<const std::byte> payload,
                         std::span<std::byte>& to, double seconds);
  Result<StoreReply> ask(StoreRequest request, double seconds);
  // Makes all calls fail: those under way and those that come later.
  void stop();

 private:
  Result<Socket> connect(Deadline deadline);
  Result<StoreReply> ask_over(const Socket& socket, const std::string& head,
                              std::span<const std::byte> payload, std::span<std::byte>& to,
                              Deadline deadline);

  const std::string address_;
  const std::string secret_;
  std::mutex mutex_;  // guards everything below
  std::vector<Socket> idle_;
  std::vector<int> busy_;  // descriptors of the connections in use
  bool is_stopped_ = false;
  int64_t failed_ns_ = 0;  // when the last try to connect failed; 0: it did not
};

}  // namespace trireme
