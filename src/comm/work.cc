#include "comm/work.h"

#include <exception>
#include <thread>
#include <utility>

#include "comm/group_driver.h"
#include "comm/rank_context.h"

namespace trireme {

Work::Work(Work&& other) noexcept
    : context_(other.context_), operation_(std::exchange(other.operation_, nullptr)) {}

Work& Work::operator=(Work&& other) noexcept {
  if (this != &other) {
    Work old(std::move(*this));  // waits for its previous operation
    context_ = other.context_;
    operation_ = std::exchange(other.operation_, nullptr);
  }
  return *this;
}

Work::~Work() {
  if (operation_ == nullptr) return;
  // An exception ends the scope of the tensors, so the transfer must no longer use them.
  if (std::uncaught_exceptions() > 0 && !operation_->done.load(std::memory_order_acquire)) {
    context_->backend.fabric().abort(
        context_->backend.rank(),
        "a rank threw during " + to_string(record_of(operation_->signature)));
  }
  try {
    wait();
  } catch (...) {  // all ranks are aborted: the next wait reports the cause
  }
}

void Work::finish() {
  Operation* operation = std::exchange(operation_, nullptr);
  const std::exception_ptr error = operation->error;
  context_->thread.release(operation);
  if (error) std::rethrow_exception(error);
}

void Work::wait() { wait_ns(context_ == nullptr ? 0 : int64_t(context_->options.timeout_s * 1e9)); }
void Work::wait(double timeout_s) { wait_ns(int64_t(timeout_s * 1e9)); }

namespace {

// Drives the operation if callers drive, and returns once it is done.
void wait_until_done(RankContext& context, Operation& operation, int64_t timeout_ns) {
  // A caller that does not drive spins little: the communication thread may need its core.
  CommThread& thread = context.thread;
  const int spins = thread.callers_drive() ? context.backend.spins() : 20;
  const int64_t begin_ns = steady_now_ns();
  Waiter waiter(context.backend.fabric(), context.backend.rank(), context.page,
                {.spins = spins, .timeout_ns = timeout_ns});
  try {
    waiter.until(
        {operation.signature, operation.driver->members(), thread.callers_drive()},
        [&] {
          if (operation.done.load(std::memory_order_seq_cst)) return true;
          thread.drive_in_caller();
          return operation.done.load(std::memory_order_seq_cst);
        },
        [&] { return operation.waiting_for.load(std::memory_order_relaxed); });
  } catch (...) {  // all ranks are aborted, so the communication thread cancels the operation
    while (!operation.done.load(std::memory_order_acquire)) {
      context.backend.wake_thread();
      std::this_thread::yield();
    }
    throw;
  }
  operation.driver->count_waited(steady_now_ns() - begin_ns);
}

}  // namespace

void Work::wait_ns(int64_t timeout_ns) {
  if (operation_ == nullptr) return;
  try {
    wait_until_done(*context_, *operation_, timeout_ns);
  } catch (...) {
    context_->thread.release(std::exchange(operation_, nullptr));
    throw;
  }
  finish();
}

void Work::wait_for(RankContext& context, Operation& operation) {
  wait_until_done(context, operation, int64_t(context.options.timeout_s * 1e9));
  if (operation.error) std::rethrow_exception(std::exchange(operation.error, nullptr));
}

bool Work::test() {
  if (operation_ == nullptr) return true;
  if (!operation_->done.load(std::memory_order_seq_cst)) context_->thread.drive_in_caller();
  if (!operation_->done.load(std::memory_order_seq_cst)) return false;
  finish();
  return true;
}

}  // namespace trireme
