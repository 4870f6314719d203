#include "agent/rank_link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "comm/tcp/socket.h"
#include "failures/evidence_json.h"

namespace trireme {
namespace {

// The agent answers once the other ranks wait or were killed, which takes some seconds. On several
// hosts it also waits until enough of them reach each other and the Coord again. If the agent dies,
// so does this rank.
constexpr double kAgentSilenceS = 3600.0;
constexpr double kTellS = 5.0;  // until the agent has room for a report

// Waits until the socket is ready. Returns false at the deadline.
bool wait_for(int socket, short events, Deadline deadline) {
  pollfd entry{socket, events, 0};
  while (true) {
    const int ready = ::poll(&entry, 1, deadline.left_ms());
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

}  // namespace

std::string link_text(const LinkDescriptors& link) {
  return fmt::format("{},{},{},{}", link.socket, link.page, link.terminal, link.pages);
}

Result<std::optional<LinkDescriptors>> link_in(const std::string& text) {
  if (text.empty()) return std::optional<LinkDescriptors>();
  LinkDescriptors link;
  char rest = 0;
  if (std::sscanf(text.c_str(), "%d,%d,%d,%d%c", &link.socket, &link.page, &link.terminal,
                  &link.pages, &rest) == 4) {
    return std::optional<LinkDescriptors>(link);
  }
  return usage(
      fmt::format("{} = \"{}\": expected four numbers; `trireme launch` sets this variable",
                  kLinkVariable, text));
}

Result<RankLink> RankLink::open(const LinkDescriptors& descriptors) {
  TRIREME_TRY(page, SharedJobPage::map(descriptors.page));
  // A rank that mpirun has started is not watched, so nobody else sees its pages.
  const bool is_watched = descriptors.pages >= 0;
  TRIREME_TRY(pages,
              is_watched ? SharedRankPages::map(descriptors.pages) : SharedRankPages::make());
  for (const int fd :
       {descriptors.socket, descriptors.page, descriptors.terminal, descriptors.pages}) {
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  if (is_watched) {
    // The agent may still ask for stacks when this link is gone and the process is about to end.
    TRIREME_TRY(kept, SharedRankPages::map(descriptors.pages));
    install_stack_handlers(std::move(kept).keep().stacks);
  }
  return RankLink(descriptors, std::move(page), std::move(pages));
}

// A lost report does not matter, because this process is killed if its agent is gone.
void RankLink::tell(RankReport::Kind kind, uint64_t epoch, const std::string& text) const {
  RankReport report{.kind = kind, .epoch = epoch};
  std::memcpy(report.text, text.data(), std::min(text.size(), sizeof report.text - 1));
  const Deadline deadline = Deadline::after(kTellS);
  while (wait_for(own_.socket, POLLOUT, deadline)) {
    if (::send(own_.socket, &report, sizeof report, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return;
    if (errno != EINTR && errno != EAGAIN) return;
  }
}

std::optional<EpochOrder> RankLink::receive_order(uint64_t least_epoch) const {
  EpochOrder order;
  const Deadline deadline = Deadline::after(kAgentSilenceS);
  while (wait_for(own_.socket, POLLIN, deadline)) {
    const ssize_t got = ::recv(own_.socket, &order, sizeof order, MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got != ssize_t(sizeof order)) return std::nullopt;
    order.failures[sizeof order.failures - 1] = '\0';
    order.rendezvous.back() = '\0';
    if (order.epoch < least_epoch) continue;
    if (order.rank == 0) ::dup2(own_.terminal, STDERR_FILENO);  // it may have had another number
    return order;
  }
  return std::nullopt;
}

void RankLink::tell_corrupt(uint64_t epoch, const CorruptionAlarm& alarm) const {
  FailureEvidence evidence;
  evidence.corruption = alarm;
  tell(RankReport::Kind::Corrupt, epoch, lenient_json_text(evidence_json(evidence)));
}

std::optional<EpochOrder> RankLink::next_epoch(uint64_t epoch, const std::string& why) const {
  tell(RankReport::Kind::Waiting, epoch, why);
  return receive_order(epoch + 1);
}

}  // namespace trireme
