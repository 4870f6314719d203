#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "kernels/argument_checks.h"
#include "kernels/matmul/quantized_matmul.h"
#include "kernels/ref_access.h"

namespace trireme {
namespace {

constexpr float kGreatest = 127.0f;

// Returns a number that is not finite if one of the block is not.
float greatest_magnitude(const float* block) {
  float greatest = 0.0f, zero = 0.0f;
  for (int64_t i = 0; i < kScaleBlock; ++i) {
    greatest = std::max(greatest, std::abs(block[i]));
    zero += 0.0f * block[i];
  }
  return greatest + zero;
}

// A scale in fp16 may be too small for its block, so the number is limited.
int8_t nearest_integer(float x) {
  return int8_t(std::clamp(x + (x < 0.0f ? -0.5f : 0.5f), -kGreatest, kGreatest));
}

void check_quantized(const QuantizedMatrix& w) {
  const MatrixRef& q = w.q_FC;
  check_matrix("q", q, q.rows, q.cols, DType::U8);
  TRIREME_CHECK(q.cols % kScaleBlock == 0, "rows of a quantized matrix are whole blocks");
  check_matrix("scale", w.scale_FB, q.rows, q.cols / kScaleBlock, DType::F16);
}

}  // namespace

void check_quantized_matmul(const QuantizedMatmulArgs& args) {
  check_quantized(args.w);
  const int64_t T = args.x_TC.rows, F = args.w.q_FC.rows, C = args.w.q_FC.cols;
  check_float("x", args.x_TC);
  check_matrix("x", args.x_TC, T, C, args.x_TC.dtype);
  check_float("y", args.y_TF);
  check_matrix("y", args.y_TF, T, F, args.y_TF.dtype);
  if (T > QuantizedMatmulArgs::kFewRows) {
    check_matrix("unpacked", args.unpacked_FC, F, C, args.x_TC.dtype);
  }
  check_if_present("bias", args.bias_F, F, args.x_TC.dtype);
  check_if_present("residual", args.residual_TF, T, F, args.y_TF.dtype);
}

void quantize(MatrixRef w_FC, const QuantizedMatrix& to) {
  check_quantized(to);
  check_matrix("w", w_FC, to.q_FC.rows, to.q_FC.cols, w_FC.dtype);
  std::vector<float> w_C(size_t(w_FC.cols));
  for (int64_t row = 0; row < w_FC.rows; ++row) {
    for (int64_t c = 0; c < w_FC.cols; ++c) w_C[size_t(c)] = float(read(w_FC, row, c));
    int8_t* const q_C = static_cast<int8_t*>(to.q_FC.data) + row * to.q_FC.stride;
    for (int64_t block = 0; block < to.scale_FB.cols; ++block) {
      const int64_t begin = block * kScaleBlock;
      write(to.scale_FB, row, block, greatest_magnitude(&w_C[size_t(begin)]) / kGreatest);
      const float scale = float(read(to.scale_FB, row, block));
      if (!std::isfinite(scale)) continue;
      const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
      for (int64_t c = begin; c < begin + kScaleBlock; ++c) {
        q_C[c] = nearest_integer(w_C[size_t(c)] * inverse);
      }
    }
  }
}

void quantized_matmul_ref(Stream&, const QuantizedMatmulArgs& args) {
  check_quantized_matmul(args);
  for (int64_t t = 0; t < args.x_TC.rows; ++t) {
    for (int64_t f = 0; f < args.y_TF.cols; ++f) {
      const int8_t* const q_C =
          static_cast<const int8_t*>(args.w.q_FC.data) + f * args.w.q_FC.stride;
      double sum = args.bias_F ? read(args.bias_F, f) : 0.0;
      if (args.residual_TF) sum += read(args.residual_TF, t, f);
      for (int64_t c = 0; c < args.x_TC.cols; ++c) {
        sum += read(args.x_TC, t, c) * read(args.w.scale_FB, f, c / kScaleBlock) * double(q_C[c]);
      }
      write(args.y_TF, t, f, sum);
    }
  }
}

}  // namespace trireme
