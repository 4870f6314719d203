#include "comm/comm_thread.h"

#include <algorithm>

#include "base/check.h"
#include "comm/group_driver.h"
#include "comm/waiter.h"
#include "device/prompt_thread.h"

namespace trireme {
namespace {
constexpr size_t kPooledOperations = 64;
// While callers drive, the communication thread looks at the first interval, and at the second one
// after kLooksBeforeDoze looks without an active operation.
constexpr int64_t kLookEveryNs = 1'000'000, kDozeNs = 100'000'000;
constexpr int kLooksBeforeDoze = 10;
}  // namespace

CommThread::CommThread(Backend& backend)
    : backend_(backend), callers_drive_(backend.caller_drives() && !backend.has_core_for_thread()) {
  pool_.reserve(kPooledOperations);
  free_.reserve(kPooledOperations);
  submitted_.reserve(kPooledOperations);
  active_.reserve(kPooledOperations);
  if (!backend_.caller_drives()) ensure_started();
}

CommThread::~CommThread() {
  if (!thread_.joinable()) return;
  leaving_.store(true, std::memory_order_seq_cst);
  backend_.wake_thread();
  thread_.join();
}

void CommThread::ensure_started() {
  const std::lock_guard lock(mutex_);  // any thread of the rank may make the first call
  if (!thread_.joinable()) thread_ = backend_.start_thread([this] { live(); });
}

Operation* CommThread::acquire() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    pool_.push_back(std::make_unique<Operation>());
    free_.reserve(pool_.size());
    return pool_.back().get();
  }
  Operation* operation = free_.back();
  free_.pop_back();
  return operation;
}

void CommThread::release(Operation* operation) {
  operation->error = nullptr;
  const std::lock_guard lock(mutex_);
  free_.push_back(operation);
}

void CommThread::submit(Operation* operation) {
  operation->driver->count_pending(*operation, 1);
  ensure_started();
  {
    const std::lock_guard lock(mutex_);
    submitted_.push_back(operation);
  }
  num_submitted_.fetch_add(1, std::memory_order_seq_cst);
  if (!callers_drive_) return backend_.wake_thread();
  if (dozes_.load(std::memory_order_seq_cst)) backend_.wake_thread();
  // The thread that holds seat_ takes new submissions after it has driven, or the next look does.
  const std::unique_lock seat(seat_, std::try_to_lock);
  if (seat) drive();
}

void CommThread::drive_in_caller() {
  if (!callers_drive_) return;
  if (num_active_.load(std::memory_order_acquire) == 0 &&
      num_submitted_.load(std::memory_order_seq_cst) == 0) {
    return;
  }
  drive_with_seat();
}

CommThread::Look CommThread::drive_with_seat() {
  const std::lock_guard seat(seat_);
  return drive();
}

CommThread::Look CommThread::drive() {
  Look look;
  do {
    look.has_changed |= take_submissions();
    look.has_changed |= drive_active();
  } while (num_submitted_.load(std::memory_order_seq_cst) != 0);
  look.num_active = active_.size();
  look.moves_messages = std::any_of(active_.begin(), active_.end(), [](const Operation* operation) {
    return operation->way == Operation::Way::Messages;
  });
  num_active_.store(look.num_active, std::memory_order_release);
  return look;
}

bool CommThread::take_submissions() {
  if (num_submitted_.load(std::memory_order_seq_cst) == 0) return false;
  const std::lock_guard lock(mutex_);
  num_submitted_.fetch_sub(int(submitted_.size()), std::memory_order_relaxed);
  active_.insert(active_.end(), submitted_.begin(), submitted_.end());
  submitted_.clear();
  return true;
}

void CommThread::end(Operation& operation) {
  operation.driver->count_pending(operation, -1);
  operation.done.store(true, std::memory_order_seq_cst);
  backend_.fabric().ring_own(backend_.rank());
}

// Messages that the peer sent before it left have been received, so nothing more will come.
void CommThread::give_up_on(int peer, Operation& operation) {
  const int rank = backend_.rank();
  const SignatureRecord record = record_of(operation.signature);
  backend_.fabric().abort(rank, left_text(rank, peer, record));
  operation.cancel();
  backend_.fabric().throw_aborted(rank, to_string(record));
}

bool CommThread::drive_active() {
  ++pass_;
  const bool aborted = backend_.fabric().aborted();
  const size_t num_ended = std::erase_if(active_, [&](Operation* operation) {
    if (!operation->driver->is_next(*operation, pass_)) return false;
    try {
      if (aborted) {
        operation->cancel();
        backend_.fabric().throw_aborted(backend_.rank(),
                                        to_string(record_of(operation->signature)));
      }
      const int peer = operation->waiting_for.load(std::memory_order_relaxed);
      const bool peer_left = peer >= 0 && backend_.fabric().has_left(peer);
      if (!operation->advance()) {
        if (!peer_left || operation->waiting_for.load(std::memory_order_relaxed) != peer) {
          operation->peer_left.reset();
          return false;
        }
        if (!operation->peer_left) operation->peer_left.emplace(steady_now_ns());
        operation->peer_left->look(steady_now_ns());
        if (operation->peer_left->ns() < backend_.delivery_ns()) return false;
        give_up_on(peer, *operation);
      }
    } catch (...) {
      operation->error = std::current_exception();
    }
    end(*operation);
    return true;
  });
  return num_ended > 0;
}

void CommThread::nap(int idle_polls, const Look& look) {
  if (callers_drive_) return nap_beside_callers(idle_polls);
  if (idle_polls < backend_.polls(look.moves_messages)) {
    __builtin_ia32_pause();
    return;
  }
  RankCell& cell = backend_.fabric().cell(backend_.rank());
  Doorbell& bell = look.num_active == 0 ? cell.own_bell : cell.bell;
  const uint32_t seen = Fabric::announce_sleep(bell);
  // If an operation has ended, the next one of its group has not been driven yet.
  if (drive_with_seat().has_changed || leaving_.load(std::memory_order_seq_cst)) {
    Fabric::cancel_sleep(bell);
    return;
  }
  std::atomic<int64_t>& looked_ns = cell.looked_ns[1];
  looked_ns.store(0, std::memory_order_relaxed);
  backend_.sleep(bell, seen, look.moves_messages);
  looked_ns.store(steady_now_ns(), std::memory_order_relaxed);
}

void CommThread::nap_beside_callers(int idle_polls) {
  RankCell& cell = backend_.fabric().cell(backend_.rank());
  const bool dozes = idle_polls > kLooksBeforeDoze;
  dozes_.store(dozes, std::memory_order_seq_cst);
  const uint32_t seen = Fabric::announce_sleep(cell.own_bell);
  if (num_submitted_.load(std::memory_order_seq_cst) != 0 ||
      leaving_.load(std::memory_order_seq_cst)) {
    Fabric::cancel_sleep(cell.own_bell);
  } else {
    cell.looked_ns[1].store(0, std::memory_order_relaxed);
    Fabric::sleep(cell.own_bell, seen, dozes ? kDozeNs : kLookEveryNs);
    cell.looked_ns[1].store(steady_now_ns(), std::memory_order_relaxed);
  }
  dozes_.store(false, std::memory_order_relaxed);
}

void CommThread::live() {
  ask_for_short_turns();
  std::atomic<int64_t>& looked_ns = backend_.fabric().cell(backend_.rank()).looked_ns[1];
  looked_ns.store(steady_now_ns(), std::memory_order_relaxed);
  int idle_polls = 0;
  while (true) {
    const Look look = drive_with_seat();
    backend_.poll();
    if (leaving_.load(std::memory_order_acquire) && look.num_active == 0 &&
        num_submitted_.load(std::memory_order_acquire) == 0) {
      break;
    }
    const bool is_idle = callers_drive_ ? look.num_active == 0 : !look.has_changed;
    idle_polls = is_idle ? idle_polls + 1 : 0;
    nap(idle_polls, look);
  }
  backend_.leave_thread();
  looked_ns.store(0, std::memory_order_relaxed);
}

}  // namespace trireme
