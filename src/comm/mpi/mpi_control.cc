#include "comm/mpi/mpi_control.h"

#include <utility>

namespace trireme {
namespace {

constexpr int kTag = 1;

}  // namespace

MpiControl::MpiControl(MPI_Comm comm, int rank, std::vector<int> remote, Fabric& fabric)
    : comm_(comm), remote_(std::move(remote)), news_(rank, fabric) {}

void MpiControl::send_to_all(const NewsMessage& message) {
  Sending sending{std::make_shared<NewsMessage>(message), std::vector<MPI_Request>(remote_.size())};
  for (size_t i = 0; i < remote_.size(); ++i) {
    MPI_Isend(sending.message.get(), int(message.bytes()), MPI_BYTE, remote_[i], kTag, comm_,
              &sending.requests[i]);
  }
  sending_.push_back(std::move(sending));
}

void MpiControl::spread_abort(int rank, const Error& error) {
  if (!remote_.empty()) news_.spread_abort(rank, error);
}

void MpiControl::say_left() {
  if (!remote_.empty()) send_to_all(news_.left_message());
}

void MpiControl::poll() {
  if (remote_.empty()) return;
  while (news_.next(message_)) send_to_all(message_);
  int found = 1;
  while (found != 0) {
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, kTag, comm_, &found, &status);
    if (found == 0) break;
    MPI_Recv(&message_, int(sizeof message_), MPI_BYTE, status.MPI_SOURCE, kTag, comm_,
             MPI_STATUS_IGNORE);
    news_.apply(message_);
  }
  std::erase_if(sending_, [](Sending& sending) {
    int done = 0;
    MPI_Testall(int(sending.requests.size()), sending.requests.data(), &done, MPI_STATUSES_IGNORE);
    return done != 0;
  });
}

void MpiControl::flush(int64_t timeout_ns) {
  const int64_t deadline = steady_now_ns() + timeout_ns;
  do {
    poll();
  } while ((!sending_.empty() || news_.has_abort()) && steady_now_ns() < deadline);
}

}  // namespace trireme
