#include "comm/tcp/tcp_transport.h"

#include "base/check.h"
#include "comm/waiter.h"

namespace trireme {

TcpTransport::TcpTransport(Mailbox& mailbox, Fabric& fabric, GroupShape shape, FaultHook hook)
    : mailbox_(mailbox), fabric_(fabric), shape_(std::move(shape)), hook_(std::move(hook)) {
  TRIREME_CHECK(shape_.id < kTcpGroups, "too many groups");
}

void TcpTransport::post(Transfer& t) {
  if (hook_) hook_(shape_.members[size_t(shape_.rank)]);
  turns_.join(t);
  t.started = false;
  t.state = &mailbox_.begin(t, shape_.members[size_t(t.peer)]);
}

bool TcpTransport::test(Transfer& t) {
  TcpMessage& message = *static_cast<TcpMessage*>(t.state);
  if (!(t.is_send ? test_send(t, message) : test_receive(t, message))) return false;
  cancel(t);
  return true;
}

bool TcpTransport::test_send(Transfer& t, TcpMessage& message) {
  if (!t.started) {
    if (!turns_.is_next(t) || !mailbox_.announce(message, shape_.id)) return false;
    t.started = true;
    turns_.pass(t);
  }
  return message.is_done;
}

bool TcpTransport::test_receive(Transfer& t, TcpMessage& message) {
  if (t.started) return message.is_done;
  if (!turns_.is_next(t)) return false;
  const Mailbox::Waiting* const waiting = mailbox_.find(message.peer, shape_.id, t.lane, t.tag);
  if (waiting == nullptr) return false;
  check_call(t, *waiting);
  t.started = true;
  turns_.pass(t);
  mailbox_.take(*waiting, message);
  return message.is_done;
}

void TcpTransport::check_call(const Transfer& t, const Mailbox::Waiting& waiting) {
  const SignatureRecord mine = record_of(*t.signature);
  const SignatureRecord& theirs = waiting.announcement.signature;
  const bool same_length = waiting.frame.message_bytes == t.bytes;
  const bool same = same_length && (t.lane == Lane::Collective ? mine.hash == theirs.hash
                                                               : mine.dtype == theirs.dtype);
  if (same) return;
  const int rank = shape_.members[size_t(shape_.rank)];
  fabric_.abort(rank, mismatch_text(rank, mine, shape_.members[size_t(t.peer)], theirs));
  fabric_.throw_aborted(rank, to_string(mine));
}

void TcpTransport::cancel(Transfer& t) {
  if (t.state == nullptr) return;
  mailbox_.end(*static_cast<TcpMessage*>(t.state));
  t.state = nullptr;
}

}  // namespace trireme
