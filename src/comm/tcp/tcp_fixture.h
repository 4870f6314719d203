#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/failure.h"
#include "comm/tcp/tcp_world.h"

namespace trireme {

// As run_ranks, but the ranks communicate by tcp: within a node of options.nodes through
// shared memory, between nodes through sockets of 127.0.0.1. They are threads all the same, because
// a rank shares nothing with other ranks but what it has got from the operating system.
inline void run_tcp_ranks(int size, const WorldOptions& options,
                          const std::function<void(World&)>& function, uint64_t epoch = 1) {
  Result<Rendezvous> rendezvous = Rendezvous::open("127.0.0.1:0", "secret", {});
  if (!rendezvous.ok()) throw Failure(rendezvous.error());
  std::atomic<bool> is_cancelled{false};
  std::vector<std::exception_ptr> errors(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const TcpPlace place{.rendezvous = rendezvous->address(),
                             .secret = "secret",
                             .epoch = epoch,
                             .rank = rank,
                             .size = size};
        const Status ended = run_tcp_rank(place, options, function);
        if (!ended.ok()) throw Failure(ended.error());
      } catch (...) {
        errors[size_t(rank)] = std::current_exception();
        is_cancelled = true;  // a rank that fails before it joins keeps nobody waiting
      }
    });
  }
  const Deadline deadline = Deadline::after(join_timeout_s(options.timeout_s));
  const Status gathered = rendezvous->gather(epoch, size, deadline, is_cancelled);
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  if (!gathered.ok()) throw Failure(gathered.error());
}

}  // namespace trireme
