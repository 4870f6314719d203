#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "comm/group.h"

namespace trireme {

// A training mode of its own: some ranks keep the parameters, the others pull them, compute, and
// push gradients. Ranks [0, num_servers) of the group are servers, each with a balanced part of the
// parameters; the rest are workers. A push is an update of its own, applied in order of arrival.
struct ParameterServerOptions {
  int num_servers = 1;
  int64_t num_elements = 0;  // fp32 parameters, of all servers together
  int staleness = 1;         // how many pushes a worker may be ahead of the slowest
  double timeout_s = 60.0;   // a server that hears nothing for so long fails the run
};

// What a worker says beside a gradient.
using PushValues = std::array<double, 2>;

// A gradient for a server's part, which begins at `begin` of all parameters.
struct PushedGradient {
  std::span<const float> gradient;
  int64_t begin = 0;
  PushValues values = {};
};
using ServerUpdate = std::function<void(std::span<float> parameters, const PushedGradient& pushed)>;

// A server rank. `parameters` is its part, as it begins and as it ends.
class ParameterServer {
 public:
  ParameterServer(Group& group, const ParameterServerOptions& options, std::span<float> parameters,
                  ServerUpdate update, CallSite site = CallSite::current());
  ~ParameterServer();
  ParameterServer(const ParameterServer&) = delete;
  ParameterServer& operator=(const ParameterServer&) = delete;

  // Answers until `num_updates` more have been made or every worker has left. Returns how many
  // were.
  int64_t serve(int64_t num_updates);
  // Sends every worker away that still pulls, drops what they push, and ends when all have left.
  void dismiss();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// What a worker sees of all servers.
class ParameterWorker {
 public:
  static constexpr int64_t kDismissed = -1;
  // Payload of one pull and push to one server.
  static constexpr int64_t sent_bytes(int64_t num_elements) {
    return 2 * 4 * int64_t(sizeof(int64_t)) + num_elements * int64_t(sizeof(float));
  }

  ParameterWorker(Group& group, const ParameterServerOptions& options);
  // Leaves; the servers end when all workers have.
  ~ParameterWorker();
  ParameterWorker(const ParameterWorker&) = delete;
  ParameterWorker& operator=(const ParameterWorker&) = delete;

  // Reads all parameters into `parameters`. Waits until no worker is more than `staleness` pushes
  // behind this one. Returns the lowest version, in updates, among the servers' answers; kDismissed
  // where a server needs no more.
  int64_t pull(std::span<float> parameters, CallSite site = CallSite::current());
  // Sends a gradient of all parameters; returns before it is applied.
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
