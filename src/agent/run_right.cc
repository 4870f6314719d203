#include "agent/run_right.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "agent/rank_epochs.h"
#include "base/failure.h"
#include "comm/fabric.h"
#include "comm/tcp/socket.h"
#include "coord/write_fence.h"

namespace trireme {
namespace {

constexpr double kRightS = 120.0;  // an agent that says nothing for so long is stopped or stuck
constexpr double kFenceS = 20.0;   // for others to publish
constexpr auto kAskRightEvery = std::chrono::milliseconds(2);

Error right_lost(uint64_t epoch, const std::string& why) {
  return {ErrorKind::Runtime, fmt::format("epoch {} is over for this rank: {}", epoch, why)};
}

}  // namespace

RunRight::RunRight(const RankLink* link, uint64_t epoch, const std::string& run_dir)
    : page_(link == nullptr ? nullptr : &link->page()),
      epoch_(epoch),
      fence_folder_(run_dir + "/" + kCoordFolder) {}

bool RunRight::is_limited() const { return page_ != nullptr && page_->may_run_until_ns != 0; }

bool RunRight::is_over() const { return page_ != nullptr && page_->least_epoch > epoch_; }

bool RunRight::is_valid_now() const {
  return !is_limited() || steady_now_ns() < page_->may_run_until_ns;
}

void RunRight::await() const {
  const Deadline deadline = Deadline::after(kRightS);
  while (!is_over()) {
    if (is_valid_now()) return;
    if (deadline.left_ms() == 0) {
      throw Failure(right_lost(epoch_, "its agent has not renewed its right to run"));
    }
    std::this_thread::sleep_for(kAskRightEvery);
  }
  throw Failure(right_lost(epoch_, "its agent waits for the next membership of the job"));
}

void RunRight::require() const {
  if (is_over() || !is_valid_now()) {
    throw Failure(right_lost(epoch_, "its agent has not renewed its right to run in time"));
  }
}

Status RunRight::publish(const std::function<Status()>& publish) const {
  if (!is_limited()) return publish();
  return WriteFence(fence_folder_)
      .publish(membership_of(epoch_), publish, Deadline::after(kFenceS));
}

}  // namespace trireme
