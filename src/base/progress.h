#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/shared_record.h"

namespace trireme {

// A call that a rank makes alone while other ranks wait for it, such as "fsync" of a file.
struct ProgressCall {
  char call[24] = {};      // such as "fsync"; "": none
  char subject[488] = {};  // the file; the end of a long path is kept
};

// Shows other threads and processes what a rank does alone, and that it makes progress. One thread
// begins and ends calls; any thread may advance. All zero bytes are a valid object without a call,
// so it can be placed in new shared memory.
class Progress {
 public:
  void begin(std::string_view call, std::string_view subject);
  void end();
  // Records that something was done, such as bytes written or a tensor verified.
  void advance() { count_.fetch_add(1, std::memory_order_relaxed); }

  // Increases with every begin, end and advance.
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  // Returns the current call, or nullopt.
  std::optional<ProgressCall> current() const;

  // Copies another rank's progress, as received from another host.
  void mirror(uint64_t count, const ProgressCall& call);

 private:
  std::atomic<uint64_t> count_;
  SharedRecord<ProgressCall> call_;
};

// Shows one call while the object exists. If `progress` is null it does nothing.
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

// Returns text such as "rank 0 has made no progress for 300 s in fsync of checkpoints/x". Without a
// shown call "in ..." is left out.
std::string stall_text(int rank, double seconds, const std::optional<ProgressCall>& call);

}  // namespace trireme
