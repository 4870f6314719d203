#pragma once

#include "device/stream.h"
#include "tensor/matrix.h"

namespace trireme {

// Rotary positions (Su et al. 2021) in the rotate-half convention: pair (j, j + D/2) of every head
// is rotated by the angle of its row's position. It works in place, in fp32, and rounds once. Row t
// has position t mod seq_len, or that of position_T. Inverse rotates back, which is the backward
// pass.
enum class Rotation { Forward, Inverse };

struct RopeArgs {
  Rotation rotation = Rotation::Forward;
  MatrixRef x_T_HD;      // fp32, bf16 or fp16, read and written
  int64_t head_dim = 0;  // even: the part of a head that is turned
  TensorRef cos_SD2;     // fp32 [positions, head_dim / 2]
  TensorRef sin_SD2;
  int64_t seq_len = 0;
  TensorRef position_T = {};  // int32: rows of the tables; absent: as above
  int64_t head_stride = 0;    // columns from one head to the next; 0: head_dim

  int64_t head_step() const { return head_stride > 0 ? head_stride : head_dim; }
  int64_t position_of(int64_t row) const {
    return position_T ? static_cast<const int32_t*>(position_T.data)[row] : row % seq_len;
  }
};
void rope_ref(Stream& stream, const RopeArgs& args);
void check_rope(const RopeArgs& args);  // throws ContractError

}  // namespace trireme
