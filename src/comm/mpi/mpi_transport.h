#pragma once

#include <mpi.h>

#include <array>
#include <memory>
#include <vector>

#include "comm/fabric.h"
#include "comm/group_shape.h"
#include "comm/transfer_turns.h"
#include "comm/transport.h"

namespace trireme {

// Sends messages between processes. A message is a frame with the caller's signature and up to
// kInlineBytes of payload, followed by the rest of the payload in segments. A receiver that reduces
// adds one segment while the next ones arrive. Used only by the communication thread.
class MpiTransport : public Transport {
 public:
  MpiTransport(MPI_Comm comm, Fabric& fabric, GroupShape shape, FaultHook hook);
  ~MpiTransport() override;
  void post(Transfer& transfer) override;
  bool test(Transfer& transfer) override;
  void cancel(Transfer& transfer) override;

 private:
  static constexpr int64_t kInlineBytes = 4096;
  static constexpr int64_t kSegmentBytes = int64_t{256} << 10;
  static constexpr int kWindow = 4;  // maximum number of segments in flight

  struct Frame {
    int64_t bytes;  // of the whole payload
    SignatureRecord signature;
    std::byte payload[kInlineBytes];
  };
  struct State {
    Frame frame;
    MPI_Request frame_request = MPI_REQUEST_NULL;
    std::array<MPI_Request, kWindow> requests;
    int64_t begun = 0;  // segments posted
    int64_t ended = 0;  // segments complete, in order
    bool frame_done = false;
    bool passed = false;             // it no longer blocks later transfers
    std::vector<std::byte> staging;  // received segments that must be reduced
  };

  State* acquire();
  int tag_of(const Transfer& transfer, bool payload) const;
  bool test_frame(Transfer& transfer, State& state);
  void check_call(const Transfer& transfer, const Frame& frame);
  bool test_segments(Transfer& transfer, State& state);

  MPI_Comm comm_;
  Fabric& fabric_;
  GroupShape shape_;
  TransferTurns turns_;
  FaultHook hook_;
  std::vector<std::unique_ptr<State>> pool_;
  std::vector<State*> free_;
};

}  // namespace trireme
