#pragma once

#include "calibrate/cold_operands.h"
#include "kernels/kernel_table.h"

namespace trireme {

// AdamW on some of the parameters of a rank, others with every call, to be called again and again.
class UpdateBench {
 public:
  static constexpr int64_t kMostParams = int64_t{2} << 20;  // of a call

  // `has_copy`: the parameter is a bf16 copy of its master weight.
  UpdateBench(int64_t params, bool has_copy, ColdOperands& cold);
  void update(const KernelTable& kernels, Stream& stream);
  double bytes() const;  // that a call reads and writes

 private:
  Shape shape_;
  bool has_copy_;
  ColdOperands& cold_;
};

}  // namespace trireme
