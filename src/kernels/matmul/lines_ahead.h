#pragma once

// Prefetches weights, for *_cpu.cc files only.

#include <cstdint>

#include "kernels/simd.h"

namespace trireme::TRIREME_ISA {
namespace {

// Lines of memory that are needed next. They are prefetched into the L2 cache some at a time, while
// others are multiplied.
class LinesAhead {
 public:
  LinesAhead() = default;  // there are none
  // `rows` pieces of row_bytes, spread over `num_calls` calls of prefetch_some().
  LinesAhead(const void* first, int64_t stride_bytes, int64_t row_bytes, int64_t rows,
             int64_t num_calls)
      : row_(static_cast<const char*>(first)),
        stride_bytes_(stride_bytes),
        row_bytes_(row_bytes),
        rows_left_(rows) {
    const int64_t lines = (row_bytes + kLineBytes - 1) / kLineBytes * rows;
    lines_of_call_ = (lines + num_calls - 1) / num_calls;
  }

  void prefetch_some() {
    for (int64_t i = 0; i < lines_of_call_ && rows_left_ > 0; ++i) {
      __builtin_prefetch(row_ + at_, 0, 2);
      at_ += kLineBytes;
      if (at_ < row_bytes_) continue;
      at_ = 0;
      row_ += stride_bytes_;
      --rows_left_;
    }
  }

 private:
  static constexpr int64_t kLineBytes = 64;
  const char* row_ = nullptr;
  int64_t stride_bytes_ = 0, row_bytes_ = 0, rows_left_ = 0;
  int64_t at_ = 0;  // bytes of the row that are prefetched
  int64_t lines_of_call_ = 0;
};

}  // namespace
}  // namespace trireme::TRIREME_ISA
