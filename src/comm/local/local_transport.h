#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "comm/fabric.h"
#include "comm/group_shape.h"
#include "comm/local/channel.h"
#include "comm/transfer_turns.h"
#include "comm/transport.h"

namespace trireme {

// The channels of one group, shared by its ranks. A channel is made when it is first used.
class ChannelTable {
 public:
  explicit ChannelTable(int size) : size_(size), channels_(size_t(2 * size * size)) {}
  ~ChannelTable();
  Channel& channel(Lane lane, int from, int to);

 private:
  int size_;
  std::vector<std::atomic<Channel*>> channels_;  // owned
};

class LocalTransport : public Transport {
 public:
  LocalTransport(Fabric& fabric, GroupShape shape, std::shared_ptr<ChannelTable> channels,
                 FaultHook hook);
  void post(Transfer& transfer) override;
  bool test(Transfer& transfer) override;
  void cancel(Transfer& transfer) override;

 private:
  bool try_send(Transfer& transfer);
  bool try_receive(Transfer& transfer);
  void check_call(const Transfer& transfer, const Channel::Message& message);
  Channel& outgoing(const Transfer& t) { return channels_->channel(t.lane, shape_.rank, t.peer); }
  Channel& incoming(const Transfer& t) { return channels_->channel(t.lane, t.peer, shape_.rank); }

  Fabric& fabric_;
  GroupShape shape_;
  std::shared_ptr<ChannelTable> channels_;  // shared by the ranks of the group
  TransferTurns turns_;
  FaultHook hook_;
};

}  // namespace trireme
