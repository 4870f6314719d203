#pragma once

#include "device/stream.h"
#include "tensor/matrix.h"

namespace trireme {

// Numbers of a row that share a scale, as in GGUF's Q8_0.
inline constexpr int64_t kScaleBlock = 32;

// A weight w_FC as whole numbers of one byte: w_fc is about q_fc x scale_fb, b = c / kScaleBlock.
struct QuantizedMatrix {
  MatrixRef q_FC;      // int8 in bytes (DType::U8); C is a multiple of kScaleBlock
  MatrixRef scale_FB;  // fp16

  explicit operator bool() const { return bool(q_FC); }
};

// y_TF = x_TC w_FC^T [+ bias in every row] [+ residual]; sums are fp32. Products of at most
// kFewRows rows read the bytes alone, and a row of y has the same bits for 1 .. kFewRows rows.
// Products of more rows write the weight, rounded to the dtype of x, to `unpacked_FC` first.
struct QuantizedMatmulArgs {
  static constexpr int64_t kFewRows = 4;

  MatrixRef x_TC;  // fp32, bf16 or fp16
  QuantizedMatrix w;
  MatrixRef unpacked_FC;  // absent if x has few rows; of the dtype of x
  MatrixRef y_TF;         // any of these dtypes, written
  TensorRef bias_F;       // absent, or of the dtype of x
  MatrixRef residual_TF;  // absent, or of the dtype of y; may be y itself
};
void quantized_matmul_ref(Stream& stream, const QuantizedMatmulArgs& args);
void check_quantized_matmul(const QuantizedMatmulArgs& args);  // throws ContractError

// Rounds w_FC (fp32, bf16 or fp16): the scale of a block is its greatest magnitude / 127 in fp16 or
// not finite. No number is off by more than half a scale and what the scale's own rounding adds.
void quantize(MatrixRef w_FC, const QuantizedMatrix& to);

}  // namespace trireme
