#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "collectives/plan.h"
#include "comm/transport.h"

namespace trireme {

// Payload that a rank has sent and received; written by whichever thread runs the operation.
struct TrafficCounter {
  std::atomic<int64_t> sent_bytes{0};
  std::atomic<int64_t> received_bytes{0};
  std::atomic<int64_t> sent_messages{0};
  std::atomic<int64_t> received_messages{0};

  void count_sent(int64_t bytes) {
    sent_bytes.fetch_add(bytes, std::memory_order_relaxed);
    sent_messages.fetch_add(1, std::memory_order_relaxed);
  }
  void count_received(int64_t bytes) {
    received_bytes.fetch_add(bytes, std::memory_order_relaxed);
    received_messages.fetch_add(1, std::memory_order_relaxed);
  }
};

// The steps of one collective of one rank, advanced by whoever drives it. A state machine, so that
// one communication thread can have many under way.
class Execution {
 public:
  struct Task {
    std::span<const Step> steps;
    bool sends_empty = false;
    int64_t mean_begin = 0;  // elements of Out that are divided by `size` at the end
    int64_t mean_count = 0;
    Transport* transport = nullptr;
    TrafficCounter* traffic = nullptr;
    const Signature* signature = nullptr;
    Lane lane = Lane::Collective;
    int tag = 0;
    int rank = 0;
    int size = 1;
    DType dtype = DType::U8;
    ReduceOp op = ReduceOp::Sum;
    const std::byte* in = nullptr;
    std::byte* out = nullptr;
    std::byte* tmp = nullptr;
  };

  void start(const Task& task);
  // Does what can be done without waiting; true once complete.
  bool advance();
  // The group rank whose message (or acceptance of one) is missing; -1 when none is.
  int waiting_for() const;
  void cancel();

 private:
  std::byte* at(const Piece& piece) const;
  void begin_exchange(const Step& step);
  bool exchange_done();
  void run_local(const Step& step) const;

  Task task_;
  size_t next_ = 0;
  bool exchanging_ = false;
  bool sending_ = false;
  bool receiving_ = false;
  Transfer send_;
  Transfer recv_;
};

}  // namespace trireme
