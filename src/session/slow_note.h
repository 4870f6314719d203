#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace trireme {

// Tells the user of work that takes long, while it runs: `tell` is called once from another thread
// if the note still exists after `after_s`, and at once in this thread if that is 0. The destructor
// waits for this call.
class SlowNote {
 public:
  SlowNote(double after_s, std::function<void()> tell);
  ~SlowNote();
  SlowNote(const SlowNote&) = delete;
  SlowNote& operator=(const SlowNote&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace trireme
