#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace trireme {

// Threads that do pieces of work in the order in which they were added. A piece must not throw. The
// destructor waits, without a deadline, until all pieces are done.
class WorkQueue {
 public:
  explicit WorkQueue(int num_threads);
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void add(std::function<void()> piece);

 private:
  void work();  // main function of each thread

  std::mutex mutex_;
  std::condition_variable has_news_;
  std::deque<std::function<void()>> pieces_;
  bool is_leaving_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace trireme
