#include "comm/process_watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/check.h"

namespace trireme {

ProcessWatch::ProcessWatch(Fabric& fabric, std::vector<int> pid_fds)
    : fabric_(fabric), pid_fds_(std::move(pid_fds)) {
  const bool is_alone =
      std::all_of(pid_fds_.begin(), pid_fds_.end(), [](int fd) { return fd < 0; });
  if (is_alone) return;
  end_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (end_ < 0) throw IoError("an event cannot be made to watch the processes of this host");
  thread_ = std::thread([this] { live(); });
}

ProcessWatch::~ProcessWatch() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  (void)!::write(end_, &one, sizeof one);
  thread_.join();
  ::close(end_);
}

void ProcessWatch::live() {
  std::vector<pollfd> events;
  for (int fd : pid_fds_) events.push_back({fd, POLLIN, 0});
  events.push_back({end_, POLLIN, 0});
  while (true) {
    for (pollfd& event : events) event.revents = 0;
    ::poll(events.data(), nfds_t(events.size()), -1);
    if (events.back().revents != 0) return;
    for (size_t r = 0; r < pid_fds_.size(); ++r) {
      if (events[r].revents == 0) continue;
      events[r].fd = -1;  // it can end only once
      const int rank = int(r);
      if (fabric_.has_left(rank)) continue;
      fabric_.abort(rank, fmt::format("rank {} has died: its process {} is gone", rank,
                                      fabric_.cell(rank).pid.load()));
    }
  }
}

}  // namespace trireme
