#pragma once

#include "comm/fabric.h"
#include "comm/group_shape.h"
#include "comm/tcp/mailbox.h"
#include "comm/transfer_turns.h"
#include "comm/transport.h"

namespace trireme {

// The messages of one group, carried by the links of the rank's mailbox. Used only by the
// communication thread.
class TcpTransport : public Transport {
 public:
  TcpTransport(Mailbox& mailbox, Fabric& fabric, GroupShape shape, FaultHook hook);
  void post(Transfer& transfer) override;
  bool test(Transfer& transfer) override;
  void cancel(Transfer& transfer) override;

 private:
  bool test_send(Transfer& transfer, TcpMessage& message);
  bool test_receive(Transfer& transfer, TcpMessage& message);
  void check_call(const Transfer& transfer, const Mailbox::Waiting& waiting);

  Mailbox& mailbox_;
  Fabric& fabric_;
  GroupShape shape_;
  TransferTurns turns_;
  FaultHook hook_;
};

}  // namespace trireme
