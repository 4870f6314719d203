#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

#include "device/help_balance.h"

namespace trireme {

// The threads of one rank. They take tiles whose borders depend only on shapes, so results do not
// depend on the number of threads. Between jobs the threads spin briefly, then sleep. A job waits
// only for tiles that are taken: a thread whose core is taken by another process delays nobody.
// While no other process takes their cores, the workers are bound to them.
class ThreadTeam {
 public:
  explicit ThreadTeam(int num_threads);  // the caller is thread 0
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(tile, thread) once for every tile in [0, num_tiles), in any order and on any thread.
  // Returns when all are done. It is not reentrant, and `body` must not throw.
  template <typename Body>
  void parallel_for(int64_t num_tiles, Body&& body) {
    if (num_tiles <= 1 || workers_.empty()) {
      for (int64_t tile = 0; tile < num_tiles; ++tile) body(tile, 0);
      return;
    }
    using Callable = std::remove_reference_t<Body>;
    run({[](void* context, int64_t tile, int thread) {
           (*static_cast<Callable*>(context))(tile, thread);
         },
         const_cast<void*>(static_cast<const void*>(&body)), num_tiles});
  }

 private:
  struct Job {
    void (*call)(void* context, int64_t tile, int thread) = nullptr;
    void* context = nullptr;
    int64_t num_tiles = 0;
  };

  void run(const Job& job);
  void open(const Job& job);  // shows its tiles to the workers
  void work(int thread);      // main function of a worker
  // Takes tiles until none is open, and returns their number. They are of one job, because the next
  // job begins only when all tiles of this one are reported done.
  uint32_t take_tiles(int thread);

  Job job_;  // read only between taking a tile and reporting it done
  // The job's generation in the upper half, the number of tiles that nobody has taken in the lower.
  // Both in one word, so that a late thread cannot take a tile of a job that is over.
  alignas(64) std::atomic<uint64_t> open_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};  // a new value starts a job
  alignas(64) std::atomic<uint32_t> done_{0};        // tiles of this job that workers have done
  std::atomic<bool> leaving_{false};
  HelpBalance help_;        // used by the caller only
  bool are_bound_ = false;  // the workers, to their cores; used by the caller only
  std::vector<std::thread> workers_;
};

}  // namespace trireme
