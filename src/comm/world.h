#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "comm/backend.h"
#include "comm/group.h"
#include "comm/rank_context.h"

namespace trireme {

// One rank's place among all ranks of a run.
class World {
 public:
  World(Backend& backend, const WorldOptions& options);
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }
  Group& group() { return group_; }
  // The host, or simulated node, of each rank.
  const std::vector<int>& node_of() const { return backend_.node_of(); }
  // Allocates memory for buffers that peers on this host read and write directly. Threads can use
  // any memory; between processes only this memory saves two copies in Algorithm::Shared.
  std::unique_ptr<SharedMemory> allocate_shared(int64_t bytes) {
    return backend_.allocate_shared(bytes);
  }

  // True if some rank has failed. A stop signal that arrives afterwards means abort, not save and
  // stop.
  bool aborted() { return backend_.fabric().aborted(); }
  void abort(const std::string& why) { backend_.fabric().abort(rank(), why); }
  // Ends all ranks because this one has thrown.
  void abort(const std::exception& cause);
  const WorldOptions& options() const { return context_.options; }

 private:
  Backend& backend_;
  RankContext context_;
  Group group_;
};

// The first cause of a failed run, the same on every rank, with the rank that failed first.
class RankError : public CommError {
 public:
  RankError(int rank, const Error& error);
  int rank() const { return rank_; }
  const Error& error() const { return error_; }  // without the rank

 private:
  int rank_;
  Error error_;
};

// For backends: ends all ranks because this rank has thrown.
void abort_with(Fabric& fabric, int rank, const std::exception& exception);
// Throws RankError if a rank has failed.
void throw_first_error(const Fabric& fabric);

// Runs `function` on `size` ranks that are threads of this process, and returns when all have
// returned. If one throws, the others are woken and end; then it throws RankError with the first
// cause.
void run_ranks(int size, const WorldOptions& options, const std::function<void(World&)>& function);
inline void run_ranks(int size, const std::function<void(World&)>& function) {
  run_ranks(size, WorldOptions{}, function);
}

}  // namespace trireme
