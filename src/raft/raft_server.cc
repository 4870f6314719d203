#include "raft/raft_server.h"

#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/failure.h"

namespace trireme {
namespace {

constexpr size_t kMostAddresses = 64;

using Clock = std::chrono::steady_clock;

Clock::time_point time_of(int64_t at_ns) {
  return Clock::time_point(std::chrono::nanoseconds(at_ns));
}
double now_s() { return double(monotonic_ns()) * 1e-9; }

}  // namespace

RaftServer::RaftServer(RaftServerOptions options, LogFile file, LogContents contents,
                       StateMachine& machine)
    : options_(std::move(options)),
      file_(std::move(file)),
      machine_(machine),
      core_(options_.raft, std::move(contents), now_s()) {}

Result<std::unique_ptr<RaftServer>> RaftServer::open(RaftServerOptions options, Socket listener,
                                                     StateMachine& machine) {
  if (options.raft.id < 1) return usage("the number of a server of a log must be 1 or greater");
  LogContents contents;
  TRIREME_TRY(file, LogFile::open(options.folder, contents));
  // LocalLog writes entries of a term, but never a vote.
  if (contents.vote.term == 0 && (contents.snapshot.index > 0 || !contents.entries.empty())) {
    return usage(options.folder + " belongs to a log of one server; use another folder");
  }
  std::unique_ptr<RaftServer> server(
      new RaftServer(std::move(options), std::move(file), std::move(contents), machine));
  RaftServer* self = server.get();
  server->network_ = std::make_unique<RaftNetwork>(
      std::move(listener), self->options_.secret, self->options_.log, [self](RaftMessage message) {
        const std::lock_guard lock(self->mutex_);
        if (self->broken_) return;  // nobody would take the message
        self->new_messages_.push_back(std::move(message));
        self->has_input_.notify_one();
      });
  server->core_thread_ = std::thread([self] { self->run(); });
  server->disk_thread_ = std::thread([self] { self->write_to_disk(); });
  return server;
}

RaftServer::~RaftServer() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    has_input_.notify_all();
    has_write_.notify_all();
  }
  if (core_thread_.joinable()) core_thread_.join();
  if (disk_thread_.joinable()) disk_thread_.join();
  network_.reset();
  std::unique_lock lock(mutex_);
  has_answer_.wait(lock, [&] { return num_calls_ == 0; });
}

Status RaftServer::rewrite_files(Deadline deadline) {
  {
    const std::lock_guard lock(mutex_);
    if (broken_) return *broken_;
    wants_new_files_ = true;
    has_input_.notify_one();
  }
  Status status = check_files();
  while (!status.ok() && deadline.left_ms() > 0) status = check_files();
  return status;
}

RaftServer::Standing RaftServer::standing() {
  const std::lock_guard lock(mutex_);
  return standing_;
}

// ---- The thread that runs the core ----

void RaftServer::run() {
  try {
    do_output();
    while (true) {
      {
        std::unique_lock lock(mutex_);
        const auto has_news = [&] {
          return is_stopping_ || !new_calls_.empty() || !new_messages_.empty() || written_ ||
                 disk_error_ || wants_new_files_;
        };
        const auto tick_ns = int64_t(core_.next_tick_s() * 1e9);
        has_input_.wait_until(lock, time_of(tick_ns), has_news);
        if (is_stopping_) break;
        take_inputs(lock);
      }
      do_output();
    }
    fail({ErrorKind::Runtime, "this server of the log has stopped"});
  } catch (const std::exception& exception) {
    core_.disk_failed();
    fail(with_context(error_of(exception), "this server of the log has stopped"));
    publish_standing();
  }
}

void RaftServer::take_inputs(std::unique_lock<std::mutex>& lock) {
  const std::vector<SharedCall> calls = std::exchange(new_calls_, {});
  const std::vector<RaftMessage> messages = std::exchange(new_messages_, {});
  const std::optional<int64_t> number = std::exchange(written_, std::nullopt);
  const std::optional<Error> disk_error = std::exchange(disk_error_, std::nullopt);
  const bool wants_new_files = std::exchange(wants_new_files_, false);
  lock.unlock();
  if (disk_error) {
    core_.disk_failed();
    fail(with_context(*disk_error, "this server of the log has stopped"));
  }
  if (number) core_.written(*number);
  if (wants_new_files) {
    core_.rewrite(machine_.snapshot());
    snapshot_index_ = applied_;
  }
  for (const RaftMessage& message : messages) {
    const bool is_known =
        core_.log().members().has(message.from) || addresses_.size() < kMostAddresses;
    if (is_known && !message.from_address.empty()) addresses_[message.from] = message.from_address;
    core_.receive(message, now_s());
  }
  core_.tick(now_s());
  waiting_.insert(waiting_.end(), calls.begin(), calls.end());
  begin_calls();
}

void RaftServer::do_output() {
  RaftOutput output = core_.take_output(now_s());
  if (output.write) {
    const std::lock_guard lock(mutex_);
    write_ = std::move(output.write);
    has_write_.notify_one();
  }
  send(output.messages);
  if (const Status status = apply_entries(output); !status) {
    core_.disk_failed();
    fail(status.error());
  }
  answer_questions(output.reads);
  if (applied_ - snapshot_index_ >= options_.entries_per_snapshot) {
    core_.compact(applied_, machine_.snapshot());
    snapshot_index_ = applied_;
  }
  publish_standing();
}

// The log of a new server does not have the leader yet, and the log of a follower no longer has a
// leader that is being removed. So the address that a server named itself comes before that in the
// log.
std::string RaftServer::address_of(ServerId id) const {
  const auto heard = addresses_.find(id);
  return heard == addresses_.end() ? core_.log().members().address_of(id) : heard->second;
}

void RaftServer::send(std::vector<RaftMessage>& messages) {
  for (RaftMessage& message : messages) {
    message.from_address = options_.address.empty() ? network_->address() : options_.address;
    network_->send(address_of(message.to), message);
  }
}

void RaftServer::publish_standing() {
  const std::lock_guard lock(mutex_);
  standing_.is_leader = core_.is_leader();
  standing_.term = core_.term();
  standing_.leader = core_.leader();
  standing_.commit = core_.commit();
  standing_.members = core_.log().members();
}

// ---- The thread that writes ----

void RaftServer::write_to_disk() {
  std::unique_lock lock(mutex_);
  while (true) {
    has_write_.wait(lock, [&] { return is_stopping_ || write_; });
    if (is_stopping_) return;
    const RaftWrite write = std::move(*write_);
    write_.reset();
    lock.unlock();
    Status status = Done{};
    try {
      status = write.snapshot == nullptr
                   ? file_.append(write.vote, write.entries)
                   : file_.save_snapshot(*write.snapshot, write.vote, write.entries);
    } catch (const std::exception& exception) {
      status = error_of(exception);
    }
    lock.lock();
    if (status) {
      written_ = write.number;
    } else {
      disk_error_ = status.error();
    }
    has_input_.notify_one();
  }
}

}  // namespace trireme
