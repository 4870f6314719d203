#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "comm/group.h"

namespace trireme {

// Asynchronous training: some ranks are servers and keep the parameters; the others are workers,
// which pull parameters, compute and push gradients. Ranks [0, num_servers) of the group are
// servers, each with a balanced part of the parameters. Every push is its own update, applied in
// order of arrival.
struct ParameterServerOptions {
  int num_servers = 1;
  int64_t num_elements = 0;  // fp32 parameters of all servers together
  int staleness = 1;         // how many pushes a worker may be ahead of the slowest worker
  double timeout_s = 60.0;   // a server that receives no request for this long fails the run
};

// Numbers that a worker sends with a gradient.
using PushValues = std::array<double, 2>;

// A gradient of one server's part, which begins at element `begin` of all parameters.
struct PushedGradient {
  std::span<const float> gradient;
  int64_t begin = 0;
  PushValues values = {};
};
using ServerUpdate = std::function<void(std::span<float> parameters, const PushedGradient& pushed)>;

// A server rank. `parameters` is its part: the initial values, and after serve() the final ones.
class ParameterServer {
 public:
  ParameterServer(Group& group, const ParameterServerOptions& options, std::span<float> parameters,
                  ServerUpdate update, CallSite site = CallSite::current());
  ~ParameterServer();
  ParameterServer(const ParameterServer&) = delete;
  ParameterServer& operator=(const ParameterServer&) = delete;

  // Serves requests until `num_updates` more updates are made or every worker has left. Returns the
  // number of updates made.
  int64_t serve(int64_t num_updates);
  // Dismisses every worker that still pulls, drops pushed gradients, and returns when all workers
  // have left.
  void dismiss();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// A worker's connection to all servers.
class ParameterWorker {
 public:
  static constexpr int64_t kDismissed = -1;
  // Payload of one pull and push with one server.
  static constexpr int64_t sent_bytes(int64_t num_elements) {
    return 2 * 4 * int64_t(sizeof(int64_t)) + num_elements * int64_t(sizeof(float));
  }

  ParameterWorker(Group& group, const ParameterServerOptions& options);
  // Tells the servers that this worker leaves. Servers end when all workers have left.
  ~ParameterWorker();
  ParameterWorker(const ParameterWorker&) = delete;
  ParameterWorker& operator=(const ParameterWorker&) = delete;

  // Reads all parameters into `parameters`. Waits until no worker is more than `staleness` pushes
  // behind this one. Returns the lowest version among the servers' answers, counted in updates, or
  // kDismissed if a server needs no more gradients.
  int64_t pull(std::span<float> parameters, CallSite site = CallSite::current());
  // Sends a gradient of all parameters. Returns before it is applied.
  void push(std::span<const float> gradient, const PushValues& values = {},
            CallSite site = CallSite::current());
  void leave(CallSite site = CallSite::current());

 private:
  Group& group_;
  ParameterServerOptions options_;
  int64_t num_pushes_ = 0;
  bool left_ = false;
};

}  // namespace trireme
