#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "comm/group.h"

namespace trireme {

// A training mode of its own: some ranks keep the parameters, the others pull them, compute, and
// push gradients. Ranks [0, num_servers) of the group are servers, each with a balanced part of the
// parameters; the rest are workers. Every worker makes the same number of pushes.
struct ParameterServerOptions {
  int num_servers = 1;
  int64_t num_elements = 0;  // fp32 parameters, of all servers together
  // How many pushes a worker may be ahead of the slowest; 0: synchronous, one update per round of
  // all workers' pushes, added in worker order, so that runs repeat bit for bit. Else a push is an
  // update of its own, applied in order of arrival.
  int staleness = 0;
};

// Applies a (sum of) gradient(s) to a server's part, which begins at `begin` of all parameters.
using ServerUpdate = std::function<void(std::span<float> parameters,
                                        std::span<const float> gradient, int64_t begin)>;

// On a server rank: answers until every worker has left. `parameters` is its part, as it begins and
// as it ends. Returns the number of updates made.
int64_t serve_parameters(Group& group, const ParameterServerOptions& options,
                         std::span<float> parameters, const ServerUpdate& update,
                         CallSite site = CallSite::current());

// What a worker sees of all servers.
class ParameterWorker {
 public:
  ParameterWorker(Group& group, const ParameterServerOptions& options);
  // Leaves; the servers end when all workers have.
  ~ParameterWorker();
  ParameterWorker(const ParameterWorker&) = delete;
  ParameterWorker& operator=(const ParameterWorker&) = delete;

  // Reads all parameters into `parameters`. Waits until no worker is more than `staleness` pushes
  // behind this one (synchronous: until its last push is in the parameters). Returns the lowest
  // version, in updates, among the servers' answers.
  int64_t pull(std::span<float> parameters, CallSite site = CallSite::current());
  // Sends a gradient of all parameters; returns before it is applied.
  void push(std::span<const float> gradient, CallSite site = CallSite::current());
  void leave(CallSite site = CallSite::current());

 private:
  Group& group_;
  ParameterServerOptions options_;
  int64_t num_pushes_ = 0;
  bool left_ = false;
};

}  // namespace trireme
