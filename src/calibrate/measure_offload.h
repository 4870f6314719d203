#pragma once

#include <cstdint>
#include <string>

#include "device/stream.h"
#include "kernels/kernel_table.h"
#include "schema/hardware.h"

namespace trireme {

// The measured speed of a file of memory.offload, with the time of its hashes.
struct MeasuredOffload {
  double read_bytes_per_s = 0.0;
  double write_bytes_per_s = 0.0;
  double share = 0.0;  // of its speed, that compute on all threads loses beside the file

  // In a hardware file, or in the part of one of `num_ranks` that use the same disk.
  void set(int num_ranks, Hardware& hardware) const;
};

// The most that is written and read. It exceeds caches, as the state of a model does.
inline constexpr int64_t kMostMeasuredOffloadBytes = int64_t{512} << 20;

// Writes and reads a file of so many bytes (of one piece at least) in this folder, alone and beside
// the compute of the stream. Takes about a second where the content stays in memory. Throws
// IoError, as the run itself would.
MeasuredOffload measure_offload(const std::string& folder, int64_t bytes,
                                const KernelTable& kernels, Stream& stream);

}  // namespace trireme
