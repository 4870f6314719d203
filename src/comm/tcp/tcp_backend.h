#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/backend.h"
#include "comm/host_windows.h"
#include "comm/tcp/mailbox.h"
#include "comm/tcp/rendezvous.h"

namespace trireme {

// A rank that is a process of `trireme launch`. Ranks of one host share memory as under MPI, and
// send each other messages through rings in it; ranks of different hosts are connected by sockets.
// Only the communication thread uses rings and sockets.
//
// An object belongs to one epoch. To go on in the next epoch, a process that has survived makes
// another one and joins again.
class TcpBackend : public Backend {
 public:
  // Returns once all ranks have joined and this rank is connected with them. Throws Failure.
  TcpBackend(const TcpPlace& place, const WorldOptions& options);
  ~TcpBackend() override;

  int rank() const override { return place_.rank; }
  Fabric& fabric() override { return *fabric_; }
  const std::vector<int>& node_of() const override { return node_of_; }
  int spins() const override { return spins_; }
  std::unique_ptr<Transport> connect(const GroupShape& shape) override;
  std::optional<SharedView> view(const GroupShape& shape) override;
  std::unique_ptr<SharedMemory> allocate_shared(int64_t bytes) override;
  bool caller_drives() const override { return false; }
  int64_t delivery_ns() const override { return 100'000'000; }
  void wake_thread() override;
  void poll() override;
  void leave_thread() override;
  int polls(bool moves_messages) const override;
  int64_t nap_ns(bool moves_messages) const override;
  void sleep(Doorbell& bell, uint32_t seen, bool moves_messages) override;

 private:
  void join();
  void make_links(std::vector<Introduction> ranks, std::vector<Socket> sockets);
  ByteRing& inbox(int of, int from, const Introduction& introduction);

  TcpPlace place_;
  WorldOptions options_;
  HostWindows windows_;
  int64_t inbox_bytes_;
  std::byte* inboxes_;  // one ring for each rank, in the own window
  std::vector<int> node_of_;
  int spins_ = 0;
  // True if no other rank is on this host. Then only sockets and threads of this process wake the
  // communication thread.
  bool is_alone_ = false;
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<HostNews> news_;
  std::unique_ptr<Mailbox> mailbox_;
  NewsMessage message_;
  std::unique_ptr<ProcessWatch> processes_;
};

}  // namespace trireme
