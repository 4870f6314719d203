#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <functional>
#include <semaphore>
#include <thread>
#include <type_traits>

#include "base/clock.h"

namespace trireme {

// Runs two pieces of work by turns, one at a time. A piece that has started something slow passes
// its turn to the other, and gets it back when the other passes or ends. Only these calls decide
// which piece runs, so ranks that run the same pieces take the same turns. run() allocates nothing.
class Turns {
 public:
  // Starts the thread of the second piece, which keeps the cores of the calling thread. `clock`
  // measures the time away, in nanoseconds.
  explicit Turns(std::function<int64_t()> clock = monotonic_ns);
  ~Turns();
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // Runs both pieces. `first` begins, on the calling thread. If a piece throws, the other one ends
  // when it passes its turn the next time, and run() throws what the first of them threw.
  template <typename First, typename Second>
  void run(First&& first, Second&& second) {
    run_pieces(piece(first), piece(second));
  }

  // Passes the turn of the calling piece. Returns at once outside run(), or if the other piece has
  // ended.
  void pass();
  // True between the beginning and the end of run().
  bool are_taken() const { return are_taken_; }
  // Returns the time that the calling piece has waited in pass() since its run began, by the clock.
  int64_t away_ns() const { return away_ns_[size_t(turn_)]; }

 private:
  struct Piece {
    void (*call)(void* context) = nullptr;
    void* context = nullptr;
  };
  struct Stopped {};  // thrown in a piece whose other one has thrown

  template <typename Body>
  static Piece piece(Body& body) {
    using Callable = std::remove_reference_t<Body>;
    return {[](void* context) { (*static_cast<Callable*>(context))(); },
            const_cast<void*>(static_cast<const void*>(&body))};
  }
  void run_pieces(Piece first, Piece second);
  void run_piece(int side, Piece piece);
  void work();  // main function of the thread

  std::function<int64_t()> clock_;
  // Only the piece whose turn it is reads and writes the members below.
  int turn_ = 0;
  bool are_taken_ = false;
  bool is_leaving_ = false;
  Piece second_;
  std::array<bool, 2> has_ended_ = {true, true};
  std::array<int64_t, 2> away_ns_ = {0, 0};
  std::exception_ptr error_;
  std::array<std::binary_semaphore, 2> may_run_ = {std::binary_semaphore(0),
                                                   std::binary_semaphore(0)};
  std::thread thread_;
};

}  // namespace trireme
