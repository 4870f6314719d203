#include "train/move_parts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>

#include "base/check.h"
#include "base/clock.h"
#include "erasure/reed_solomon.h"

namespace trireme {
namespace {

constexpr auto kMoveNap = std::chrono::microseconds(100);

// The files of one folder that moves read or write, each opened once.
class MovedFiles {
 public:
  MovedFiles(std::string folder, int flags) : folder_(std::move(folder)), flags_(flags) {}
  ~MovedFiles() {
    for (const auto& [name, fd] : opened_) ::close(fd);
  }
  MovedFiles(const MovedFiles&) = delete;
  MovedFiles& operator=(const MovedFiles&) = delete;

  Status read(const std::string& name, int64_t offset, std::span<std::byte> out) {
    TRIREME_TRY(fd, open(name));
    while (!out.empty()) {
      const ssize_t got = ::pread(fd, out.data(), out.size(), offset);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return failure(name, "read");
      if (got == 0) break;
      out = out.subspan(size_t(got));
      offset += got;
    }
    if (!out.empty()) std::memset(out.data(), 0, out.size());  // a target that is still short
    return Done{};
  }

  Status write(const std::string& name, int64_t offset, std::span<const std::byte> bytes) {
    TRIREME_TRY(fd, open(name));
    while (!bytes.empty()) {
      const ssize_t put = ::pwrite(fd, bytes.data(), bytes.size(), offset);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return failure(name, "write");
      bytes = bytes.subspan(size_t(put));
      offset += put;
    }
    return Done{};
  }

 private:
  Result<int> open(const std::string& name) {
    const auto found = opened_.find(name);
    if (found != opened_.end()) return found->second;
    const int fd = ::open((folder_ + "/" + name).c_str(), flags_ | O_CLOEXEC, 0600);
    if (fd < 0) return failure(name, "open");
    opened_[name] = fd;
    return fd;
  }
  Error failure(const std::string& name, const char* action) const {
    return damaged(
        fmt::format("{}/{}: cannot {}: {}", folder_, name, action, std::strerror(errno)));
  }

  std::string folder_;
  int flags_;
  std::map<std::string, int> opened_;
};

// A place in the moves, for one direction. Moves that do not concern it are passed over.
class MoveCursor {
 public:
  template <typename Concerns>
  void settle(std::span<const PartMove> moves, const Concerns& concerns) {
    while (move_ < moves.size() && (done_ >= moves[move_].bytes || !concerns(moves[move_]))) {
      ++move_;
      done_ = 0;
    }
  }
  bool is_at_end(std::span<const PartMove> moves) const { return move_ == moves.size(); }
  const PartMove& move(std::span<const PartMove> moves) const { return moves[move_]; }
  int64_t done() const { return done_; }
  void advance(int64_t bytes) { done_ += bytes; }

 private:
  size_t move_ = 0;
  int64_t done_ = 0;
};

// Messages of one direction that are in flight, in their order.
struct Flight {
  Work work;
  const PartMove* move = nullptr;
  int64_t at = 0;  // in the move
  std::span<std::byte> bytes;
};

class PartMover {
 public:
  PartMover(std::span<const PartMove> moves, const MoveParties& parties)
      : moves_(moves),
        parties_(parties),
        sources_(parties.source_folder, O_RDONLY),
        targets_(parties.target_folder, O_RDWR | O_CREAT),
        moved_ns_(monotonic_ns()) {
    TRIREME_CHECK(int64_t(parties.buffer.size()) >= kMoveBufferBytes,
                  "the buffer of moves is too small");
  }

  Status run() {
    while (true) {
      const bool has_moved = send_some() | receive_some();
      const bool is_over = sent_.is_at_end(moves_) && received_.is_at_end(moves_) &&
                           num_sends_ == 0 && num_receives_ == 0;
      if (is_over) return first_failure_;
      if (has_moved) {
        moved_ns_ = monotonic_ns();
        if (parties_.progress != nullptr) parties_.progress->advance();
        continue;
      }
      look_around();
      std::this_thread::sleep_for(kMoveNap);
    }
  }

 private:
  static constexpr int kInFlight = 2;

  int rank() const { return parties_.ranks.rank(); }
  int from(const PartMove& move) const { return parties_.rank_of[size_t(move.from)]; }
  int to(const PartMove& move) const { return parties_.rank_of[size_t(move.to)]; }
  bool sends(const PartMove& move) const { return from(move) == rank() && to(move) != rank(); }
  bool receives(const PartMove& move) const { return to(move) == rank(); }
  void keep(const Status& status) {
    if (!status.ok() && first_failure_.ok()) first_failure_ = status;
  }
  // Buffers 0 and 1 are sent, 2 and 3 received, and targets are read into 4.
  std::span<std::byte> buffer(int number, int64_t bytes) const {
    return parties_.buffer.subspan(size_t(number * kMovedAtOnce), size_t(bytes));
  }
  static int64_t next_bytes(const MoveCursor& cursor, const PartMove& move) {
    return std::min(move.bytes - cursor.done(), kMovedAtOnce);
  }

  bool send_some() {
    bool has_moved = false;
    sent_.settle(moves_, [this](const PartMove& move) { return sends(move); });
    while (num_sends_ < kInFlight && !sent_.is_at_end(moves_)) {
      const PartMove& move = sent_.move(moves_);
      Flight& flight = sends_[size_t((first_send_ + num_sends_) % kInFlight)];
      flight.bytes = buffer((first_send_ + num_sends_) % kInFlight, next_bytes(sent_, move));
      keep(sources_.read(move.source, move.source_offset + sent_.done(), flight.bytes));
      flight.work = parties_.ranks.start_send(tensor(flight.bytes), to(move));
      flight.move = &move;
      sent_.advance(int64_t(flight.bytes.size()));
      ++num_sends_;
      has_moved = true;
      sent_.settle(moves_, [this](const PartMove& next) { return sends(next); });
    }
    if (num_sends_ > 0 && sends_[size_t(first_send_)].work.test()) {
      first_send_ = (first_send_ + 1) % kInFlight;
      --num_sends_;
      has_moved = true;
    }
    return has_moved;
  }

  bool receive_some() {
    bool has_moved = false;
    const auto concerns = [this](const PartMove& move) { return receives(move); };
    received_.settle(moves_, concerns);
    while (num_receives_ < kInFlight && !received_.is_at_end(moves_)) {
      const PartMove& move = received_.move(moves_);
      const bool is_own = from(move) == rank();
      if (is_own && num_receives_ > 0) break;  // targets take their moves in order
      const int number = (first_receive_ + num_receives_) % kInFlight;
      Flight& flight = receives_[size_t(number)];
      flight.move = &move;
      flight.at = received_.done();
      flight.bytes = buffer(2 + number, next_bytes(received_, move));
      received_.advance(int64_t(flight.bytes.size()));
      has_moved = true;
      if (is_own) {
        keep(sources_.read(move.source, move.source_offset + flight.at, flight.bytes));
        land(flight);
      } else {
        flight.work = parties_.ranks.start_recv(tensor(flight.bytes), from(move));
        ++num_receives_;
      }
      received_.settle(moves_, concerns);
    }
    if (num_receives_ > 0 && receives_[size_t(first_receive_)].work.test()) {
      land(receives_[size_t(first_receive_)]);
      first_receive_ = (first_receive_ + 1) % kInFlight;
      --num_receives_;
      has_moved = true;
    }
    return has_moved;
  }

  void land(const Flight& flight) {
    const PartMove& move = *flight.move;
    const int64_t offset = move.target_offset + flight.at;
    if (move.is_first && move.coefficient == 1) {
      keep(targets_.write(move.target, offset, flight.bytes));
      return;
    }
    const std::span<std::byte> target = buffer(4, int64_t(flight.bytes.size()));
    if (move.is_first) {
      std::memset(target.data(), 0, target.size());
    } else {
      keep(targets_.read(move.target, offset, target));
    }
    add_product(move.coefficient, flight.bytes, target);
    keep(targets_.write(move.target, offset, target));
  }

  static TensorRef tensor(std::span<std::byte> bytes) {
    return {bytes.data(), DType::U8, Shape{int64_t(bytes.size())}};
  }

  // Nothing has moved. Ends all ranks if this one is to end, or if a peer is silent.
  void look_around() {
    if (parties_.is_abandoned != nullptr && parties_.is_abandoned->load()) {
      parties_.ranks.abort("a rank has ended while it exchanged the parts of a checkpoint");
    }
    const double silent_s = double(monotonic_ns() - moved_ns_) * 1e-9;
    if (silent_s < parties_.timeout_s) return;
    const Flight& flight =
        num_receives_ > 0 ? receives_[size_t(first_receive_)] : sends_[size_t(first_send_)];
    const int peer = num_receives_ > 0 ? from(*flight.move) : to(*flight.move);
    parties_.ranks.abort_for(
        peer, fmt::format("rank {} has waited {:.0f} s for rank {} in the exchange of {} of a "
                          "checkpoint in memory",
                          rank(), silent_s, peer, flight.move->source));
    moved_ns_ = monotonic_ns();  // the next test of a message throws
  }

  std::span<const PartMove> moves_;
  const MoveParties& parties_;
  MovedFiles sources_;
  MovedFiles targets_;
  MoveCursor sent_, received_;
  std::array<Flight, kInFlight> sends_, receives_;
  int first_send_ = 0, num_sends_ = 0;
  int first_receive_ = 0, num_receives_ = 0;
  Status first_failure_ = Done{};
  int64_t moved_ns_;
};

}  // namespace

Status move_parts(std::span<const PartMove> moves, const MoveParties& parties) {
  return PartMover(moves, parties).run();
}

}  // namespace trireme
