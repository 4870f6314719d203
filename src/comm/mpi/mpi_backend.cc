#include "comm/mpi/mpi_backend.h"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "comm/mpi/mpi_control.h"
#include "comm/mpi/mpi_native.h"
#include "comm/mpi/mpi_transport.h"
#include "comm/mpi/mpi_world.h"
#include "comm/rank_watch.h"

namespace trireme {

MpiBackend::MpiBackend(const WorldOptions& options) : options_(options) {
  thread_ = std::thread([this] {
    try {
      initialise();
    } catch (const std::exception& error) {
      failure_ = error.what();
    }
    std::unique_lock lock(mutex_);
    initialised_ = true;
    changed_.notify_all();
    if (!failure_.empty()) return;
    changed_.wait(lock, [&] { return body_ || given_up_; });
    lock.unlock();
    if (body_) body_();
    finalise();
  });
  std::unique_lock lock(mutex_);
  const auto is_done = [&] { return initialised_; };
  const auto deadline = std::chrono::duration<double>(options.timeout_s);
  if (options.on_hang && !changed_.wait_for(lock, deadline, is_done)) {
    options.on_hang({ErrorKind::Runtime,
                     fmt::format("MPI_Init has not returned within run.comm_timeout_s = {:.3g}: a "
                                 "process of another rank is stopped or was not started",
                                 options.timeout_s)});
  }
  changed_.wait(lock, is_done);
  if (failure_.empty()) return;
  lock.unlock();
  thread_.join();
  throw CommError(failure_);
}

MpiBackend::~MpiBackend() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      given_up_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }
}

std::thread MpiBackend::start_thread(std::function<void()> body) {
  const std::lock_guard lock(mutex_);
  body_ = std::move(body);
  changed_.notify_all();
  return std::move(thread_);
}

void MpiBackend::initialise() {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  if (provided < MPI_THREAD_FUNNELED)
    throw CommError("this MPI does not support threads (MPI_THREAD_FUNNELED)");
  // The fabric reports a lost peer, so an MPI error must not end the process.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  windows_ = std::make_unique<HostWindows>(rank_, size_);
  map_windows();
  make_fabric();
  for (int r = 0; r < size_ && options_.nodes; ++r) {
    node_of_[size_t(r)] = int(options_.nodes->node_of(r));
  }
}

// Ranks of one host exchange their windows and map them. If that is not allowed, every rank is its
// own node.
void MpiBackend::map_windows() {
  MPI_Comm host;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host);
  int host_size = 0;
  MPI_Comm_size(host, &host_size);
  const WindowAddress own = windows_->address();
  std::vector<WindowAddress> all(static_cast<size_t>(host_size));
  MPI_Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, host);
  const int mapped = windows_->map(all) ? 1 : 0;
  int all_mapped = 0;
  MPI_Allreduce(&mapped, &all_mapped, 1, MPI_INT, MPI_MIN, host);
  if (all_mapped == 0) windows_->unmap();
  int first = rank_;
  for (const WindowAddress& peer : all) {
    if (all_mapped != 0) first = std::min(first, int(peer.rank));
  }
  node_of_.resize(size_t(size_));
  MPI_Allgather(&first, 1, MPI_INT, node_of_.data(), 1, MPI_INT, MPI_COMM_WORLD);
  MPI_Comm_free(&host);
  const int on_host = int(std::count(node_of_.begin(), node_of_.end(), first));
  spins_ = on_host <= int(std::thread::hardware_concurrency()) ? 4000 : 50;
}

void MpiBackend::make_fabric() {
  fabric_ = windows_->make_fabric(node_of_[size_t(rank_)]);
  MPI_Comm control;
  MPI_Comm_dup(MPI_COMM_WORLD, &control);
  control_ = std::make_unique<MpiControl>(control, rank_, windows_->remote_ranks(), *fabric_);
  fabric_->on_abort = [this](int rank, const Error& error) { control_->spread_abort(rank, error); };
  processes_ = windows_->watch_processes(*fabric_);
}

std::unique_ptr<Transport> MpiBackend::connect(const GroupShape& shape) {
  return std::make_unique<MpiTransport>(MPI_COMM_WORLD, *fabric_, shape, options_.fault_hook);
}

std::optional<SharedView> MpiBackend::view(const GroupShape& shape) {
  return windows_->view(shape, options_.fault_hook);
}

std::unique_ptr<SharedMemory> MpiBackend::allocate_shared(int64_t bytes) {
  return windows_->allocate(bytes);
}

// MPI makes progress only when called, so naps are short while messages move. Else, polls are
// frequent enough for the control messages of other hosts.
int MpiBackend::polls(bool moves_messages) const { return moves_messages ? spins_ : 20; }

int64_t MpiBackend::nap_ns(bool moves_messages) const {
  return moves_messages ? 20'000 : 2'000'000;
}

void MpiBackend::poll() { control_->poll(); }

void MpiBackend::leave_thread() {
  if (!fabric_->aborted()) control_->say_left();
  control_->flush(500'000'000);
}

// After an abort MPI cannot be finalised, because peers may be gone. The launcher ends the job when
// this process exits with an error.
void MpiBackend::finalise() {
  if (!fabric_->aborted()) MPI_Finalize();
}

std::vector<double> MpiBackend::run_native(const GroupShape& shape, const SharedBoard::Call& call,
                                           int repeat) {
  if (shape.id != 0) return {};
  return time_native_collective(call, size_, rank_, repeat);
}

Status run_mpi_rank(const WorldOptions& options, const std::function<void(World&)>& function) {
  MpiBackend backend(options);
  Fabric& fabric = backend.fabric();
  const RankWatch watch(fabric, backend.rank(), 1, options);
  {
    World world(backend, options);
    try {
      function(world);
    } catch (const std::exception& error) {
      abort_with(fabric, backend.rank(), error);
    }
    fabric.leave(backend.rank());
  }
  throw_first_error(fabric);
  return Done{};
}

bool has_mpi() { return true; }

}  // namespace trireme
