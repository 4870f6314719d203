#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "coord/coord.h"
#include "coord/write_fence.h"

namespace trireme {

// Makes the calls of a membership agent, one after the other, on a thread of its own: a Coord or a
// folder that does not answer must not hold up the agent.
class CoordWorker {
 public:
  // Every call has an answer after `deadline_s`, however many calls wait before it. Only a disk
  // that hangs can hold it up longer.
  CoordWorker(std::unique_ptr<Coord> coord, std::string fence_folder, double deadline_s);
  ~CoordWorker();  // waits for the call that is being made
  CoordWorker(const CoordWorker&) = delete;
  CoordWorker& operator=(const CoordWorker&) = delete;

  void ask(int64_t id, CoordCall call);
  void raise_fence(int64_t epoch);

  struct Answer {
    int64_t id = 0;            // of a call
    int64_t fenced_epoch = 0;  // of a fence; 0: it is the answer to a call
    CoordCall call;
    Result<CoordReply> result;
  };
  std::vector<Answer> take_answers();
  int fd() const { return event_; }  // becomes readable when there is an answer

 private:
  struct Job {
    int64_t id = 0;
    int64_t fenced_epoch = 0;
    CoordCall call;
    Deadline deadline;
  };
  void add(Job job);
  void work();
  Result<CoordReply> make(const Job& job);

  std::unique_ptr<Coord> coord_;
  WriteFence fence_;
  const double deadline_s_;
  int event_;
  std::mutex mutex_;  // guards the next four members
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::vector<Answer> answers_;
  bool must_end_ = false;
  std::thread thread_;
};

}  // namespace trireme
