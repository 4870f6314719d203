#include "agent/asked_job.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "agent/place_variables.h"
#include "comm/tcp/handshake.h"

namespace trireme {
namespace {

constexpr double kAnswerS = 5.0;  // to connect and to answer
// To connect to an agent that another one has named as the leader. It may be gone, and then the
// other one is asked again.
constexpr double kNamedS = 1.0;
constexpr std::chrono::milliseconds kAskAgain(100);
constexpr const char* kAddressRemedy =
    "give HOST:PORT at which the launcher (--listen) or another agent of a running job listens, or "
    "the folder of the run";

}  // namespace

Status AskedJob::connect(Deadline deadline) {
  const bool was_named = asked_ != address_;
  const std::string who =
      was_named ? fmt::format("{}, which leads the job of {},", asked_, address_) : asked_;
  Result<Socket> socket = connect_to(asked_, was_named ? Deadline::after(kNamedS) : deadline);
  if (!socket.ok()) {
    return Error{socket.error().kind, fmt::format("no agent answers at {} ({}); {}", who,
                                                  socket.error().message, kAddressRemedy)};
  }
  const Status greeted = greet(*socket, secret_, {.purpose = Purpose::Status}, deadline);
  if (!greeted.ok() && greeted.error().kind == ErrorKind::Usage) {
    return usage(fmt::format("{} (variable {})", greeted.error().message, kSecretVariable));
  }
  if (!greeted.ok()) {
    return Error{ErrorKind::Runtime, fmt::format("what listens at {} does not greet as an agent "
                                                 "({}); {}",
                                                 who, greeted.error().message, kAddressRemedy)};
  }
  channel_ = std::make_unique<AgentChannel>(std::move(*socket));
  return Done{};
}

void AskedJob::turn_to(const std::string& address) {
  channel_.reset();
  asked_ = address;
}

// An agent whose job is over tells the last status unasked.
Result<StatusAnswer> AskedJob::ask(Deadline deadline) {
  if (!channel_) TRIREME_TRY_DONE(connect(deadline));
  StatusPieces pieces;
  bool has_asked = false;
  while (true) {
    channel_->flush();
    while (const auto message = channel_->next()) {
      if (message->head.kind != AgentMessageKind::StatusPiece) continue;
      TRIREME_TRY(is_whole,
                  pieces.add({.kind = static_cast<StatusAnswer::Kind>(message->head.process),
                              .following = message->head.number,
                              .bytes = message->body}));
      if (is_whole) return pieces.take();
    }
    if (!std::exchange(has_asked, true)) channel_->send({.kind = AgentMessageKind::AskStatus});
    if (channel_->is_broken() || deadline.left_ms() == 0) {
      const std::string why = channel_->is_broken() ? channel_->why_broken() : "it says nothing";
      const std::string who = asked_;
      turn_to(address_);
      return Error{ErrorKind::Runtime,
                   fmt::format("the agent at {} does not answer ({}): its job may have ended, or "
                               "its host may be gone; ask another agent of the job, or read the "
                               "folder of the run",
                               who, why)};
    }
    std::vector<pollfd> entries;
    channel_->add_descriptors(entries);
    ::poll(entries.data(), entries.size(), std::min(deadline.left_ms(), 1000));
  }
}

Result<std::string> AskedJob::status(double patience_s) {
  const Deadline patience = Deadline::after(patience_s);
  bool is_kept = channel_ != nullptr;
  while (true) {
    const bool was_named = asked_ != address_;  // by another agent, as the one that leads
    Result<StatusAnswer> answer = ask(Deadline::after(kAnswerS));
    if (!answer.ok()) {
      turn_to(address_);
      // The agent of an earlier question may have gone since. If the leader has gone, the agent
      // that has named it will name the next one.
      if (std::exchange(is_kept, false)) continue;
      const bool may_change = was_named && answer.error().kind == ErrorKind::Runtime;
      if (!may_change || patience.left_ms() == 0) return answer.error();
      std::this_thread::sleep_for(kAskAgain);
      continue;
    }
    switch (answer->kind) {
      case StatusAnswer::Kind::Record:
        return std::move(answer->text);
      case StatusAnswer::Kind::NotBegun:
        return usage(
            fmt::format("the job of {} has not begun to train, so it has no status yet; "
                        "ask again once it has",
                        address_));
      case StatusAnswer::Kind::Elsewhere: {
        // The first agent that is named is asked at once. Agents that name each other, or
        // themselves, are asked again after a while.
        const bool is_first = asked_ == address_ && answer->text != address_;
        turn_to(answer->text);
        if (is_first) continue;
        break;
      }
      case StatusAnswer::Kind::NoLeader:
        turn_to(address_);
        break;
    }
    if (patience.left_ms() == 0) {
      return Error{ErrorKind::Runtime,
                   fmt::format("no agent of the job of {} has led it for {} s; its agents may not "
                               "reach each other or the Coord: look at their messages",
                               address_, patience_s)};
    }
    std::this_thread::sleep_for(kAskAgain);
  }
}

}  // namespace trireme
