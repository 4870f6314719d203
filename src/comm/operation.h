#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <vector>

#include "comm/execution.h"
#include "comm/shared_board.h"
#include "comm/waited_time.h"

namespace trireme {

class GroupDriver;

// One call of one rank, from its beginning to its end, whoever drives it.
struct Operation {
  enum class Way : uint8_t { Messages, Shared, Native };

  GroupDriver* driver = nullptr;
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
  std::atomic<int> waiting_for{-1};     // world rank
  std::optional<WaitedTime> peer_left;  // since that rank was first seen to have left

  // True once complete. Any exception leaves the operation cancelled and all ranks aborted.
  bool advance();
  void cancel();
};

}  // namespace trireme
