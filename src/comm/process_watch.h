#pragma once

#include <thread>
#include <vector>

#include "comm/fabric.h"

namespace trireme {

// Aborts all ranks as soon as the process of a rank of this host ends before the rank has left.
// Its thread sleeps until then, so it takes no time from training.
class ProcessWatch {
 public:
  // pid_fds: [world rank], borrowed; -1: not watched.
  ProcessWatch(Fabric& fabric, std::vector<int> pid_fds);
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

 private:
  void live();

  Fabric& fabric_;
  std::vector<int> pid_fds_;
  int end_ = -1;  // an event that ends the thread
  std::thread thread_;
};

}  // namespace trireme
