#include "comm/mpi/mpi_control.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

namespace trireme {
namespace {

constexpr int kTag = 1;
constexpr int64_t kAnnounceProgressNs = 200'000'000;
constexpr int64_t kAnnounceWaitNs = 20'000'000;  // only longer waits are announced to other hosts

}  // namespace

MpiControl::MpiControl(MPI_Comm comm, int rank, std::vector<int> remote, Fabric& fabric)
    : comm_(comm), rank_(rank), remote_(std::move(remote)), fabric_(fabric) {}

MpiControl::~MpiControl() = default;

void MpiControl::send_to_all(std::shared_ptr<Message> message, int64_t bytes) {
  Sending sending{std::move(message), std::vector<MPI_Request>(remote_.size())};
  for (size_t i = 0; i < remote_.size(); ++i) {
    MPI_Isend(sending.message.get(), int(bytes), MPI_BYTE, remote_[i], kTag, comm_,
              &sending.requests[i]);
  }
  sending_.push_back(std::move(sending));
}

void MpiControl::spread_abort(int rank, const Error& error) {
  if (remote_.empty()) return;
  const std::lock_guard lock(mutex_);
  abort_rank_ = rank;
  abort_error_ = error;
  abort_pending_.store(true, std::memory_order_release);
}

void MpiControl::say_left() {
  if (remote_.empty()) return;
  auto message = std::make_shared<Message>();
  message->kind = Kind::Left;
  message->rank = rank_;
  send_to_all(std::move(message), offsetof(Message, cause));
}

// Announces what this rank waits for, once it has waited long, and again when that changes.
void MpiControl::announce_wait() {
  const int64_t now = steady_now_ns();
  if (now - last_announced_ns_ < kAnnounceWaitNs) return;
  const std::optional<WaitRecord> record = fabric_.cell(rank_).waits[0].load();
  if (!record) return;
  WaitRecord wait = *record;
  if (wait.since_ns != 0 && now - wait.since_ns < kAnnounceWaitNs) return;
  if (wait.since_ns == announced_wait_.since_ns && wait.peer == announced_wait_.peer) return;
  last_announced_ns_ = now;
  announced_wait_ = wait;
  auto message = std::make_shared<Message>();
  message->kind = Kind::Waits;
  message->rank = rank_;
  // Sent as an age, because the clocks of hosts differ.
  if (wait.since_ns != 0) wait.since_ns = now - wait.since_ns;
  message->wait = wait;
  send_to_all(std::move(message), offsetof(Message, cause));
}

// Announces the progress of this rank's own work, at most a few times per second.
void MpiControl::announce_progress() {
  const int64_t now = steady_now_ns();
  const Progress& progress = fabric_.cell(rank_).progress;
  const uint64_t count = progress.count();
  if (count == announced_progress_ || now - progress_announced_ns_ < kAnnounceProgressNs) return;
  announced_progress_ = count;
  progress_announced_ns_ = now;
  auto message = std::make_shared<Message>();
  message->kind = Kind::Progress;
  message->rank = rank_;
  message->progress = count;
  message->progress_call = progress.current().value_or(ProgressCall{});
  send_to_all(std::move(message), offsetof(Message, cause));
}

void MpiControl::receive(const Message& message) {
  switch (message.kind) {
    case Kind::Abort:
      fabric_.abort(message.rank, message.cause, message.error_kind);
      break;
    case Kind::Left:
      fabric_.leave(message.rank);
      break;
    case Kind::Progress:
      fabric_.cell(message.rank).progress.mirror(message.progress, message.progress_call);
      break;
    case Kind::Waits: {
      WaitRecord wait = message.wait;
      if (wait.since_ns != 0) wait.since_ns = steady_now_ns() - wait.since_ns;
      fabric_.cell(message.rank).waits[0].store(wait);
      break;
    }
  }
}

void MpiControl::poll() {
  if (remote_.empty()) return;
  if (abort_pending_.load(std::memory_order_acquire)) {
    const std::lock_guard lock(mutex_);
    abort_pending_.store(false, std::memory_order_relaxed);
    auto message = std::make_shared<Message>();
    message->kind = Kind::Abort;
    message->rank = abort_rank_;
    message->error_kind = abort_error_.kind;
    const std::string& cause = abort_error_.message;
    const size_t length = std::min(cause.size(), sizeof message->cause - 1);
    std::memcpy(message->cause, cause.data(), length);
    message->cause[length] = '\0';
    send_to_all(std::move(message), int64_t(offsetof(Message, cause) + length + 1));
  }
  announce_wait();
  announce_progress();
  int found = 1;
  while (found != 0) {
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, kTag, comm_, &found, &status);
    if (found == 0) break;
    MPI_Recv(&incoming_, int(sizeof incoming_), MPI_BYTE, status.MPI_SOURCE, kTag, comm_,
             MPI_STATUS_IGNORE);
    receive(incoming_);
  }
  std::erase_if(sending_, [](Sending& sending) {
    int done = 0;
    MPI_Testall(int(sending.requests.size()), sending.requests.data(), &done, MPI_STATUSES_IGNORE);
    return done != 0;
  });
}

void MpiControl::flush(int64_t timeout_ns) {
  const int64_t deadline = steady_now_ns() + timeout_ns;
  do {
    poll();
  } while ((!sending_.empty() || abort_pending_.load()) && steady_now_ns() < deadline);
}

}  // namespace trireme
