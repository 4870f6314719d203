#include "device/turns.h"

#include <utility>

namespace trireme {

Turns::Turns(std::function<int64_t()> clock)
    : clock_(std::move(clock)), thread_([this] { work(); }) {}

Turns::~Turns() {
  is_leaving_ = true;
  may_run_[1].release();
  thread_.join();
}

void Turns::work() {
  for (;;) {
    may_run_[1].acquire();
    if (is_leaving_) return;
    run_piece(1, second_);
    turn_ = 0;
    may_run_[0].release();
  }
}

void Turns::run_piece(int side, Piece piece) {
  try {
    if (!error_) piece.call(piece.context);
  } catch (const Stopped&) {  // the error of the other piece is told
  } catch (...) {
    error_ = std::current_exception();
  }
  has_ended_[size_t(side)] = true;
}

void Turns::run_pieces(Piece first, Piece second) {
  second_ = second;
  has_ended_ = {false, false};
  away_ns_ = {0, 0};
  turn_ = 0;
  are_taken_ = true;
  run_piece(0, first);
  if (!has_ended_[1]) {
    turn_ = 1;
    may_run_[1].release();
    may_run_[0].acquire();  // until the second piece has ended
  }
  are_taken_ = false;
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Turns::pass() {
  const int own = turn_, other = 1 - own;
  if (!are_taken_ || has_ended_[size_t(other)]) return;
  const int64_t begin_ns = clock_();
  turn_ = other;
  may_run_[size_t(other)].release();
  may_run_[size_t(own)].acquire();
  away_ns_[size_t(own)] += clock_() - begin_ns;
  if (error_) throw Stopped{};
}

}  // namespace trireme
