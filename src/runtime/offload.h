#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/offload_file.h"
#include "runtime/rank_memory.h"

namespace trireme {

// The optimizer's state, and parameters, of one rank where they lie in a file. Pieces pass through
// staging buffers, units are read to where they are used; a thread of its own does it in the order
// of their actions, while the rank computes.
class Offload {
 public:
  // Makes the file `path` where the plan has pieces; borrows the rest. Waits end with an IoError
  // after `timeout_s`.
  Offload(const RankPlan& plan, const RankMemory& memory, const std::string& path,
          double timeout_s);
  ~Offload();

  // The optimizer's table of a chunk in the map of the file, to be set and saved between steps;
  // null where the chunk has no pieces.
  void* state(int chunk) const;
  // The same of its stored parameters; null where they lie in memory.
  void* params(int chunk) const;
  // Where a piece lies while it is updated.
  void* staged(int chunk, int piece) const;

  void start_fetch(const Action& action) { start(action, true); }
  void start_offload(const Action& action) { start(action, false); }
  // The piece of a Step lies in its staging buffer.
  void finish_fetch(const Action& action);
  // The units' parameters are where they are read, or again in the file.
  void finish_units(const Action& action);
  // Everything is in the file again.
  void finish();

  // Before the map is read: what stands in the file is what was written. Throws IoError.
  void verify() const;
  // After the map was written: what it holds counts from now on, and need not stay in memory.
  void adopt_map();

  // Bytes read and written since the rank began.
  int64_t moved_bytes() const { return moved_bytes_; }
  int64_t waited_ns() const { return waited_ns_; }

 private:
  struct Piece {
    std::vector<OffloadBlock> blocks;
    std::byte* buffer = nullptr;
    int64_t file_begin = 0;  // of the chunk's table
    size_t chunk = 0;
    int64_t request = -1;  // number of the last one that moves it
    uint64_t hash = 0;     // of what stands in the file
    bool has_hash = false;
  };
  struct Request {
    Piece* piece = nullptr;
    bool is_fetch = true;
    bool is_unit = false;
  };

  void start(const Action& action, bool is_fetch);
  void wait_for(int64_t request);
  void serve();
  void move(const Request& request);
  uint64_t hash_of(const Piece& piece, const std::byte* base, bool is_in_file) const;
  [[noreturn]] void fail_damaged(const Piece& piece) const;

  std::unique_ptr<OffloadFile> file_;
  std::vector<int64_t> file_begins_;        // [chunk]
  std::vector<std::vector<Piece>> pieces_;  // [chunk][piece]
  std::vector<std::vector<Piece>> units_;   // [chunk][unit], what its Fetch reads
  std::vector<int64_t> params_begins_;      // [chunk]; -1: in memory
  double timeout_s_;
  int64_t moved_bytes_ = 0;
  int64_t waited_ns_ = 0;
  // Shared with the thread.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Request> requests_;  // a ring, so that a step allocates nothing
  int64_t num_started_ = 0;
  int64_t num_done_ = 0;
  std::exception_ptr failure_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace trireme
