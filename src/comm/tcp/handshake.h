#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/tcp/socket.h"
#include "comm/tcp/wire.h"

namespace trireme {

// Receives sentences about visitors that were refused and messages that were dropped. May be empty.
using TcpLog = std::function<void(const std::string&)>;

// The two sides of a new connection prove to each other that they know the secret of the job
// without sending it: both send a Hello with a fresh nonce, then the connecting side sends the
// keyed hash (HMAC-SHA256) of both, and the other side answers with its own. The two hashes have
// different labels, so neither can be sent back as the other.

Nonce fresh_nonce();
// A secret for a new job, as text.
std::string fresh_secret();
Proof proof_of(std::string_view secret, std::string_view label, const Hello& connecting,
               const Hello& accepting);

// The connecting side. An error says why the other side has refused, or that the other side does
// not know the secret.
Status greet(const Socket& socket, const std::string& secret, Hello mine, Deadline deadline);

// The accepting side. Visitors are greeted side by side, so one that says nothing keeps nobody
// waiting; it is sent away after a few seconds.
class Reception {
 public:
  // `judge` decides about a visitor that knows the secret.
  using Judge = std::function<Verdict(const Hello&)>;
  // A visitor that has not proved itself within `greeting_s` seconds is refused.
  Reception(Socket listener, std::string secret, TcpLog log, double greeting_s = kGreetingS);
  std::string address() const { return own_address(listener_); }

  struct Visitor {
    Socket socket;
    Hello hello;
  };
  // Waits up to `most_ms` for news and returns the visitors that are welcome now. `mine` is the
  // greeting of this side; each visitor gets a nonce of its own.
  Result<std::vector<Visitor>> receive(const Hello& mine, const Judge& judge, int most_ms);

 private:
  struct Guest {
    Socket socket;
    std::string address;
    Hello mine;
    Hello theirs;
    bool has_greeted = false;
    std::vector<std::byte> received;
    Deadline deadline;
  };
  enum class Progress { Waits, Welcome, Gone };

  Status let_in();
  void wait(int most_ms);
  Progress advance(Guest& guest, const Hello& mine, const Judge& judge);
  Progress answer(Guest& guest, const Judge& judge);
  void refuse(const Guest& guest, const std::string& why);

  static constexpr double kGreetingS = 5.0;

  Socket listener_;
  std::string secret_;
  TcpLog log_;
  double greeting_s_;
  std::vector<Guest> guests_;
};

}  // namespace trireme
