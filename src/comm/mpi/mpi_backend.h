#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/backend.h"
#include "comm/host_windows.h"

namespace trireme {

class MpiControl;

// A rank that is a process. All MPI calls are made on one thread, which becomes the rank's
// communication thread: it initialises MPI, runs the operations, and finalises MPI.
class MpiBackend : public Backend {
 public:
  // Returns once MPI is initialised and the ranks of this host can see each other.
  explicit MpiBackend(const WorldOptions& options);
  ~MpiBackend() override;

  int rank() const override { return rank_; }
  Fabric& fabric() override { return *fabric_; }
  const std::vector<int>& node_of() const override { return node_of_; }
  int spins() const override { return spins_; }
  std::unique_ptr<Transport> connect(const GroupShape& shape) override;
  std::optional<SharedView> view(const GroupShape& shape) override;
  std::unique_ptr<SharedMemory> allocate_shared(int64_t bytes) override;
  bool caller_drives() const override { return false; }
  int64_t delivery_ns() const override { return 100'000'000; }
  std::thread start_thread(std::function<void()> body) override;
  void poll() override;
  void leave_thread() override;
  int polls(bool moves_messages) const override;
  int64_t nap_ns(bool moves_messages) const override;
  std::vector<double> run_native(const GroupShape& shape, const SharedBoard::Call& call,
                                 int repeat) override;

 private:
  void initialise();
  void map_windows();
  void make_fabric();
  void finalise();

  WorldOptions options_;
  int rank_ = 0;
  int size_ = 1;
  int spins_ = 0;
  std::vector<int> node_of_;
  std::unique_ptr<HostWindows> windows_;
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<MpiControl> control_;
  std::unique_ptr<ProcessWatch> processes_;

  // The thread waits between initialise() and the call of start_thread(), which gives it its body.
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool initialised_ = false;
  std::string failure_;
  std::function<void()> body_;
  bool given_up_ = false;
};

}  // namespace trireme
