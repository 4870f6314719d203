#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "collectives/plan.h"
#include "comm/transport.h"

namespace trireme {

// Payload that a rank has sent and received. Written by the thread that runs the operation.
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

// Executes the steps of one rank in one collective. It is a state machine, so one communication
// thread can drive many of them at once.
class Execution {
 public:
  struct Task {
    std::span<const Step> steps;
    bool sends_empty = false;
    int64_t mean_begin = 0;  // first element of Out that is divided by `size` at the end
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
  // Does everything that is possible without waiting. Returns true once complete.
  bool advance();
  // Group rank whose message or acceptance is missing; -1 if none is.
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
