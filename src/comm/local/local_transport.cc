#include "comm/local/local_transport.h"

#include <cstring>
#include <thread>

#include "base/check.h"
#include "comm/waiter.h"

namespace trireme {

ChannelTable::~ChannelTable() {
  for (std::atomic<Channel*>& channel : channels_) delete channel.load();
}

Channel& ChannelTable::channel(Lane lane, int from, int to) {
  std::atomic<Channel*>& place = channels_[size_t((int(lane) * size_ + from) * size_ + to)];
  Channel* channel = place.load(std::memory_order_acquire);
  if (channel != nullptr) [[likely]]
    return *channel;
  auto fresh = std::make_unique<Channel>();
  if (place.compare_exchange_strong(channel, fresh.get(), std::memory_order_acq_rel)) {
    return *fresh.release();
  }
  return *channel;  // the other end has made it
}

LocalTransport::LocalTransport(Fabric& fabric, GroupShape shape,
                               std::shared_ptr<ChannelTable> channels, FaultHook hook)
    : fabric_(fabric),
      shape_(std::move(shape)),
      channels_(std::move(channels)),
      hook_(std::move(hook)) {}

void LocalTransport::post(Transfer& transfer) {
  if (hook_) hook_(shape_.members[shape_.rank]);
  turns_.join(transfer);
  if (transfer.is_send) try_send(transfer);
}

bool LocalTransport::test(Transfer& transfer) {
  return transfer.is_send ? try_send(transfer) : try_receive(transfer);
}

bool LocalTransport::try_send(Transfer& t) {
  Channel& channel = outgoing(t);
  if (t.started) return channel.is_taken(t.ticket);
  if (!turns_.is_next(t)) return false;
  const uint64_t ticket = channel.next_ticket;
  Channel::Message& message = channel.slot(ticket);
  const uint64_t free_state =
      ticket > Channel::kSlots ? Channel::state_of(ticket - Channel::kSlots, Channel::Taken) : 0;
  if (message.state.load(std::memory_order_seq_cst) != free_state) return false;
  ++channel.next_ticket;
  message.tag = t.tag;
  message.bytes = t.bytes;
  message.signature = *t.signature;
  message.is_inline = t.bytes <= Channel::kInlineBytes;
  message.data = message.is_inline ? message.payload.data() : t.source;
  if (message.is_inline && t.bytes > 0) {
    std::memcpy(message.payload.data(), t.source, size_t(t.bytes));
  }
  t.started = true;
  t.ticket = ticket;
  turns_.pass(t);
  message.state.store(Channel::state_of(ticket, Channel::Posted), std::memory_order_seq_cst);
  fabric_.ring(shape_.members[t.peer]);
  return message.is_inline;
}

void LocalTransport::check_call(const Transfer& t, const Channel::Message& message) {
  const Signature& mine = *t.signature;
  const Signature& theirs = message.signature;
  const bool same = t.lane == Lane::Collective
                        ? mine.hash() == theirs.hash()
                        : mine.dtype == theirs.dtype && message.bytes == t.bytes;
  if (same) return;
  const int rank = shape_.members[shape_.rank];
  fabric_.abort(rank,
                mismatch_text(rank, record_of(mine), shape_.members[t.peer], record_of(theirs)));
  fabric_.throw_aborted(rank, to_string(record_of(mine)));
}

bool LocalTransport::try_receive(Transfer& t) {
  if (!turns_.is_next(t)) return false;
  Channel& channel = incoming(t);
  for (uint64_t ticket = channel.first_untaken;; ++ticket) {
    Channel::Message& message = channel.slot(ticket);
    if (channel.is_taken(ticket)) {
      if (ticket == channel.first_untaken) ++channel.first_untaken;
      continue;
    }
    uint64_t state = message.state.load(std::memory_order_seq_cst);
    // Tickets are posted in order, so no later message is there either.
    if (state != Channel::state_of(ticket, Channel::Posted)) return false;
    if (message.tag != t.tag) continue;
    // From here the sender keeps its memory until the message is taken, even if the sender fails.
    if (!message.state.compare_exchange_strong(state, Channel::state_of(ticket, Channel::Taking))) {
      return false;
    }
    turns_.pass(t);
    const int sender = shape_.members[t.peer];
    try {
      check_call(t, message);
    } catch (...) {
      message.state.store(Channel::state_of(ticket, Channel::Taken), std::memory_order_seq_cst);
      throw;
    }
    land(t, 0, message.data, t.bytes);
    message.state.store(Channel::state_of(ticket, Channel::Taken), std::memory_order_seq_cst);
    fabric_.ring(sender);
    return true;
  }
}

// A sender that fails takes its pointer back, or waits for the receiver that is reading it.
void LocalTransport::cancel(Transfer& t) {
  if (!t.is_send || !t.started) return;
  std::atomic<uint64_t>& state = outgoing(t).slot(t.ticket).state;
  uint64_t posted = Channel::state_of(t.ticket, Channel::Posted);
  const uint64_t taken = Channel::state_of(t.ticket, Channel::Taken);
  if (state.compare_exchange_strong(posted, taken)) return;
  while (state.load(std::memory_order_acquire) == Channel::state_of(t.ticket, Channel::Taking)) {
    std::this_thread::yield();
  }
}

}  // namespace trireme
