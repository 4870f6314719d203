#include "agent/status_askers.h"

#include <utility>

namespace trireme {

Verdict judge_of_agents(const Hello& hello) {
  const bool is_welcome = hello.purpose == Purpose::Agent || hello.purpose == Purpose::Status ||
                          hello.purpose == Purpose::Parts;
  return is_welcome ? Verdict::Welcome : Verdict::WrongRank;
}

bool StatusAskers::take(Reception::Visitor& visitor) {
  if (visitor.hello.purpose != Purpose::Status) return false;
  askers_.push_back({.channel = AgentChannel(std::move(visitor.socket))});
  return true;
}

bool StatusAskers::receive() {
  bool does_any_wait = false;
  for (Asker& asker : askers_) {
    asker.channel.flush();
    while (const auto message = asker.channel.next()) {
      asker.waits = message->head.kind == AgentMessageKind::AskStatus;
      if (!asker.waits) asker.channel.close("it may only ask for the status");
    }
    does_any_wait = does_any_wait || asker.waits;
  }
  std::erase_if(askers_, [](const Asker& asker) { return asker.channel.is_broken(); });
  return does_any_wait;
}

void StatusAskers::answer(const StatusAnswer& answer) {
  const std::vector<StatusPiece> pieces = pieces_of(answer);
  for (Asker& asker : askers_) {
    if (!std::exchange(asker.waits, false)) continue;
    for (const StatusPiece& piece : pieces) {
      asker.channel.send({.kind = AgentMessageKind::StatusPiece,
                          .process = static_cast<int64_t>(piece.kind),
                          .number = piece.following},
                         piece.bytes);
    }
  }
}

// A connection that is closed while a question arrives would lose the answer.
void StatusAskers::finish(const StatusAnswer& last, Deadline deadline) {
  (void)receive();
  for (Asker& asker : askers_) asker.waits = true;
  answer(last);
  while (!askers_.empty() && deadline.left_ms() > 0) {
    std::vector<pollfd> entries;
    add_descriptors(entries);
    ::poll(entries.data(), entries.size(), deadline.left_ms());
    (void)receive();
  }
}

void StatusAskers::add_descriptors(std::vector<pollfd>& entries) const {
  for (const Asker& asker : askers_) asker.channel.add_descriptors(entries);
}

}  // namespace trireme
