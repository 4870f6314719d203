#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <span>
#include <vector>

#include "comm/execution.h"
#include "comm/shared_board.h"

namespace trireme {

class Group;

// One call of one rank, from its beginning to its end, whoever drives it.
struct Operation {
  enum class Way : uint8_t { Messages, Shared, Native };

  Group* group = nullptr;
  Signature signature;
  Way way = Way::Messages;
  Lane lane = Lane::Collective;
  int64_t tmp_bytes = 0;
  Execution::Task task;         // Messages
  SharedBoard::Call shared;     // Shared, Native
  Step direct_step;             // send and recv: their only step
  CommPlan unequal;             // all_to_all with unequal counts
  std::vector<int64_t> counts;  // what the spans of task and shared point to
  std::vector<int64_t> recv_counts;

  bool begun = false;
  int native_repeat = 1;
  std::vector<double> native_seconds;
  Execution execution;
  std::exception_ptr error;
  std::atomic<bool> done{false};
  std::atomic<int> waiting_for{-1};  // world rank
  int64_t peer_left_ns = 0;          // when that rank was first seen to have left; 0: not

  // True once complete. Any exception leaves the operation cancelled and all ranks aborted.
  bool advance();
  void cancel();
};

}  // namespace trireme
