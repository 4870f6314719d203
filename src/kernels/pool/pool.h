#pragma once

#include "device/stream.h"
#include "kernels/write.h"
#include "schema/image_window.h"
#include "tensor/matrix.h"

namespace trireme {

// One number for each position of the window and each channel. Max: the largest pixel, or the first
// NaN; padding is never chosen. Average: the sum over size * size, where padding counts as zeros; a
// window of the whole image is the global average. x and y have one dtype (fp32, bf16 or fp16).
enum class PoolKind { Max, Average };

struct PoolForwardArgs {
  PoolKind kind = PoolKind::Max;
  ImageWindow window;
  MatrixRef x_PC;
  MatrixRef y_QC;  // written, rounded once
};
void pool_forward_ref(Stream& stream, const PoolForwardArgs& args);
void check_pool_forward(const PoolForwardArgs& args);  // throws ContractError

// dx (+)= the gradients of the windows that chose the pixel (Max: the first of equal ones; it is
// found again from x), or all that contain it (Average), summed in fp32 in the order of the
// windows, rounded once. An image has at most 4,096 columns.
struct PoolBackwardArgs {
  PoolKind kind = PoolKind::Max;
  ImageWindow window;
  MatrixRef dy_QC;
  MatrixRef x_PC;   // absent for Average
  MatrixRef dx_PC;  // written or added to, as `write` says
  Write write = Write::Overwrite;
};
void pool_backward_ref(Stream& stream, const PoolBackwardArgs& args);
void check_pool_backward(const PoolBackwardArgs& args);  // throws ContractError

}  // namespace trireme
