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

// One call of one rank, from its start to its end, on whichever thread drives it.
struct Operation {
  enum class Way : uint8_t { Messages, Shared, Native };

  GroupDriver* driver = nullptr;
  Signature signature;
  Way way = Way::Messages;
  Lane lane = Lane::Collective;
  int64_t tmp_bytes = 0;
  Execution::Task task;         // way Messages
  SharedBoard::Call shared;     // ways Shared and Native
  Step direct_step;             // the only step of a send or recv
  CommPlan unequal;             // for all_to_all with unequal counts
  std::vector<int64_t> counts;  // storage for the spans of task and shared
  std::vector<int64_t> recv_counts;

  bool begun = false;
  int native_repeat = 1;
  std::vector<double> native_seconds;
  Execution execution;
  std::exception_ptr error;
  std::atomic<bool> done{false};
  std::atomic<int> waiting_for{-1};     // world rank
  std::optional<WaitedTime> peer_left;  // how long the peer has been seen to have left

  // Returns true once complete. If it throws, the operation is cancelled and all ranks are aborted.
  bool advance();
  void cancel();
};

}  // namespace trireme
