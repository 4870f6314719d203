#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/host_news.h"

namespace trireme {

// Carries the news of this rank to the ranks of other hosts, and theirs here. Used on the
// communication thread.
class MpiControl {
 public:
  // `remote` lists the world ranks of other hosts.
  MpiControl(MPI_Comm comm, int rank, std::vector<int> remote, Fabric& fabric);

  void poll();  // receives messages and sends news
  // May be called from any thread. The next poll tells all other hosts.
  void spread_abort(int rank, const Error& error);
  void say_left();
  // Polls until everything is sent, but no longer than `timeout_ns`.
  void flush(int64_t timeout_ns);

 private:
  struct Sending {
    std::shared_ptr<NewsMessage> message;  // shared by all sends of one broadcast
    std::vector<MPI_Request> requests;
  };

  void send_to_all(const NewsMessage& message);

  MPI_Comm comm_;
  std::vector<int> remote_;
  HostNews news_;
  NewsMessage message_;
  std::vector<Sending> sending_;
};

}  // namespace trireme
