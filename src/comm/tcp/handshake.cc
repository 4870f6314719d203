#include "comm/tcp/handshake.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace trireme {
namespace {

constexpr std::string_view kConnects = "trireme connects";
constexpr std::string_view kAccepts = "trireme accepts";
constexpr size_t kMostGuests = 1024;  // that have not proved themselves yet

std::string_view text_of(Purpose purpose) {
  switch (purpose) {
    case Purpose::Join:
      return "to join";
    case Purpose::Peer:
      return "to connect as a peer";
    case Purpose::Agent:
      return "to join as the agent of a host";
    case Purpose::Parts:
      return "to give parts of checkpoints";
    case Purpose::Status:
      break;
  }
  return "to ask for the status of the job";
}

bool is_rank(const Hello& hello) {
  return hello.purpose == Purpose::Join || hello.purpose == Purpose::Peer;
}

std::string place_of(const Hello& hello) {
  if (!is_rank(hello)) return "";
  return fmt::format(" as rank {} of epoch {}", hello.rank, hello.epoch);
}

std::string name_of(const Hello& hello) {
  if (is_rank(hello)) return fmt::format("rank {}", hello.rank);
  return hello.purpose == Purpose::Status ? "this question" : "this agent";
}

std::string why_refused(const Answer& answer, const Hello& mine) {
  switch (answer.verdict) {
    case Verdict::WrongSecret:
      return mine.purpose == Purpose::Status
                 ? "the secrets differ; ask with the secret of the launcher"
                 : "the secrets differ; start all ranks and agents with the secret of the launcher";
    case Verdict::WrongEpoch:
      return fmt::format("this rank is of epoch {}, and the job is in epoch {}", mine.epoch,
                         answer.epoch);
    case Verdict::WrongRank:
      return is_rank(mine) ? fmt::format("the job has no rank {}", mine.rank)
                           : "only ranks meet at this address; give one at which an agent listens";
    case Verdict::RankTaken:
      return fmt::format("another process has already joined as rank {}", mine.rank);
    case Verdict::Welcome:
      break;
  }
  return "the other side does not know the secret of this job, so it is not trusted";
}

}  // namespace

Nonce fresh_nonce() {
  Nonce nonce;
  TRIREME_CHECK(RAND_bytes(nonce.data(), int(nonce.size())) == 1, "no random numbers");
  return nonce;
}

std::string fresh_secret() {
  std::string text;
  for (const uint8_t byte : fresh_nonce()) text += fmt::format("{:02x}", byte);
  return text;
}

Proof proof_of(std::string_view secret, std::string_view label, const Hello& connecting,
               const Hello& accepting) {
  std::string message(label);
  for (const Hello* hello : {&connecting, &accepting}) {
    message.append(reinterpret_cast<const char*>(hello), sizeof *hello);
  }
  Proof proof;
  unsigned length = unsigned(proof.size());
  const unsigned char* made = HMAC(EVP_sha256(), secret.data(), int(secret.size()),
                                   reinterpret_cast<const unsigned char*>(message.data()),
                                   message.size(), proof.data(), &length);
  TRIREME_CHECK(made != nullptr && length == proof.size(), "HMAC-SHA256 has failed");
  return proof;
}

Status greet(const Socket& socket, const std::string& secret, Hello mine, Deadline deadline) {
  mine.nonce = fresh_nonce();
  std::array<std::byte, sizeof(Hello)> hello_bytes;
  TRIREME_TRY_DONE(send_all(socket, bytes_of(mine), deadline));
  TRIREME_TRY_DONE(receive_all(socket, hello_bytes, deadline));
  TRIREME_TRY(theirs, check_hello(hello_bytes));
  const Proof proof = proof_of(secret, kConnects, mine, theirs);
  TRIREME_TRY_DONE(send_all(socket, bytes_of(proof), deadline));
  std::array<std::byte, sizeof(Answer)> answer_bytes;
  TRIREME_TRY_DONE(receive_all(socket, answer_bytes, deadline));
  TRIREME_TRY(answer, check_answer(answer_bytes));
  const Proof expected = proof_of(secret, kAccepts, mine, theirs);
  const bool is_proved = CRYPTO_memcmp(answer.proof.data(), expected.data(), expected.size()) == 0;
  if (answer.verdict == Verdict::Welcome && is_proved) return Done{};
  return Error{ErrorKind::Usage, fmt::format("{} has refused {}: {}", peer_address(socket),
                                             name_of(mine), why_refused(answer, mine))};
}

Reception::Reception(Socket listener, std::string secret, TcpLog log, double greeting_s)
    : listener_(std::move(listener)),
      secret_(std::move(secret)),
      log_(std::move(log)),
      greeting_s_(greeting_s) {}

void Reception::refuse(const Guest& guest, const std::string& why) {
  if (log_) log_(fmt::format("refused {}: {}", guest.address, why));
}

Status Reception::let_in() {
  while (guests_.size() < kMostGuests) {
    TRIREME_TRY(socket, accept_from(listener_));
    if (!socket.is_open()) return Done{};
    Guest guest;
    guest.address = peer_address(socket);
    guest.socket = std::move(socket);
    guest.deadline = Deadline::after(greeting_s_);
    guests_.push_back(std::move(guest));
  }
  return Done{};
}

void Reception::wait(int most_ms) {
  std::vector<pollfd> entries = {{listener_.fd(), POLLIN, 0}};
  for (const Guest& guest : guests_) {
    entries.push_back({guest.socket.fd(), POLLIN, 0});
    most_ms = std::min(most_ms, guest.deadline.left_ms() + 1);
  }
  ::poll(entries.data(), entries.size(), most_ms);
}

Reception::Progress Reception::answer(Guest& guest, const Judge& judge) {
  const Proof expected = proof_of(secret_, kConnects, guest.theirs, guest.mine);
  Answer answer{.epoch = guest.mine.epoch};
  const bool is_proved =
      CRYPTO_memcmp(guest.received.data(), expected.data(), expected.size()) == 0;
  answer.verdict = is_proved ? judge(guest.theirs) : Verdict::WrongSecret;
  if (answer.verdict == Verdict::Welcome) {
    answer.proof = proof_of(secret_, kAccepts, guest.theirs, guest.mine);
  } else {
    refuse(guest, fmt::format("it wanted {}{}: {}", text_of(guest.theirs.purpose),
                              place_of(guest.theirs), why_refused(answer, guest.theirs)));
  }
  const bool sent = send_all(guest.socket, bytes_of(answer), guest.deadline).ok();
  return sent && answer.verdict == Verdict::Welcome ? Progress::Welcome : Progress::Gone;
}

// Receives the greeting, then the proof. Both have a fixed size.
Reception::Progress Reception::advance(Guest& guest, const Hello& mine, const Judge& judge) {
  while (true) {
    const size_t needed = guest.has_greeted ? sizeof(Proof) : sizeof(Hello);
    const size_t had = guest.received.size();
    guest.received.resize(needed);
    const ssize_t got = ::recv(guest.socket.fd(), guest.received.data() + had, needed - had, 0);
    guest.received.resize(had + size_t(std::max<ssize_t>(got, 0)));
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      if (guest.deadline.left_ms() > 0) return Progress::Waits;
      refuse(guest,
             fmt::format("it has not proved within {} s that it knows the secret", greeting_s_));
      return Progress::Gone;
    }
    if (got <= 0) {
      refuse(guest, "it left without a proof that it knows the secret");
      return Progress::Gone;
    }
    if (guest.received.size() < needed) continue;
    if (guest.has_greeted) return answer(guest, judge);
    const Result<Hello> theirs = check_hello(guest.received);
    if (!theirs.ok()) {
      refuse(guest, theirs.error().message);
      return Progress::Gone;
    }
    guest.theirs = *theirs;
    guest.mine = mine;
    guest.mine.nonce = fresh_nonce();
    guest.has_greeted = true;
    guest.received.clear();
    if (!send_all(guest.socket, bytes_of(guest.mine), guest.deadline).ok()) return Progress::Gone;
  }
}

Result<std::vector<Reception::Visitor>> Reception::receive(const Hello& mine, const Judge& judge,
                                                           int most_ms) {
  wait(most_ms);
  TRIREME_TRY_DONE(let_in());
  std::vector<Visitor> welcome;
  std::erase_if(guests_, [&](Guest& guest) {
    const Progress progress = advance(guest, mine, judge);
    if (progress == Progress::Welcome) {
      welcome.push_back({std::move(guest.socket), guest.theirs});
    }
    return progress != Progress::Waits;
  });
  return welcome;
}

}  // namespace trireme
