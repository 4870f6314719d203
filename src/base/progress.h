#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/shared_record.h"

namespace trireme {

// A call that a rank makes alone while other ranks wait for it: "fsync" of a file.
struct ProgressCall {
  char call[24] = {};      // "fsync"; "": none
  char subject[488] = {};  // the file; a long path keeps its end
};

// Shows to other threads and processes what a rank does alone, and that it advances. One thread
// begins and ends calls; any thread may advance. All zero bytes are a valid object without a call,
// so it can lie in fresh shared memory.
class Progress {
 public:
  void begin(std::string_view call, std::string_view subject);
  void end();
  // Something was done: bytes were written, a tensor was verified.
  void advance() { count_.fetch_add(1, std::memory_order_relaxed); }

  // Grows with every begin, end and advance.
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  // The call that is under way, or nullopt.
  std::optional<ProgressCall> current() const;

  // A copy of another rank's progress, as a message of another host tells it.
  void mirror(uint64_t count, const ProgressCall& call);

 private:
  std::atomic<uint64_t> count_;
  SharedRecord<ProgressCall> call_;
};

// Shows one call for as long as the object lives. `progress` may be null: then nobody is told.
class ShownCall {
 public:
  ShownCall(Progress* progress, std::string_view call, std::string_view subject)
      : progress_(progress) {
    if (progress_ != nullptr) progress_->begin(call, subject);
  }
  ~ShownCall() {
    if (progress_ != nullptr) progress_->end();
  }
  ShownCall(const ShownCall&) = delete;
  ShownCall& operator=(const ShownCall&) = delete;

 private:
  Progress* progress_;
};

// "rank 0 has made no progress for 300 s in fsync of checkpoints/x", or without "in ..." where no
// call is shown.
std::string stall_text(int rank, double seconds, const std::optional<ProgressCall>& call);

}  // namespace trireme
