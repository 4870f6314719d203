#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/sample_range.h"

namespace trireme {

// Adds a range of samples to the list of those that training leaves out. Does nothing if the range
// is empty or in the list. Ranges may overlap.
void leave_out(SampleRange range, std::vector<SampleRange>& left_out);

// Returns the first sample of the next batch of `batch` samples. The batch begins at `first_sample`
// or at the first later sample from which no sample of it is left out. The result depends only on
// the arguments, so every layout and every resumed run trains on the same batches.
uint64_t next_whole_batch(std::span<const SampleRange> left_out, uint64_t first_sample,
                          int64_t batch);

// Returns how many samples before `next_sample` are left out.
int64_t num_left_out(std::span<const SampleRange> left_out, uint64_t next_sample);

}  // namespace trireme
