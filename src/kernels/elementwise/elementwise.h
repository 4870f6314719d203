#pragma once

#include "base/philox.h"
#include "device/stream.h"
#include "kernels/write.h"
#include "tensor/matrix.h"

namespace trireme {

// y_N = x_N in y's dtype (fp32, bf16).
struct ConvertArgs {
  TensorRef x_N;
  TensorRef y_N;  // written
};
void convert_ref(Stream& stream, const ConvertArgs& args);
void check_convert(const ConvertArgs& args);  // throws ContractError

// sum_N += x_N, both fp32 or both bf16, added in fp32 and rounded once: joins two subtrees of the
// gradient's sum.
struct AddArgs {
  TensorRef x_N;
  TensorRef sum_N;
};
void add_ref(Stream& stream, const AddArgs& args);
void check_add(const AddArgs& args);  // throws ContractError

// out_N = x_N + y_N, one dtype (fp32, bf16 or fp16), summed in fp32, rounded once.
struct SumArgs {
  TensorRef x_N;
  TensorRef y_N;
  TensorRef out_N;  // written; may be x or y
};
void sum_ref(Stream& stream, const SumArgs& args);
void check_sum(const SumArgs& args);  // throws ContractError

// y_TN = x_TN, or y_TN += x_TN if y is fp32. x and y may each be fp32, bf16 or fp16, and their rows
// may be strided.
struct CopyMatrixArgs {
  MatrixRef x_TN;
  MatrixRef y_TN;
  Write write = Write::Overwrite;
};
void copy_matrix_ref(Stream& stream, const CopyMatrixArgs& args);
void check_copy_matrix(const CopyMatrixArgs& args);  // throws ContractError

struct ZeroArgs {
  TensorRef x_N;
};
void zero_ref(Stream& stream, const ZeroArgs& args);

// Fills with normal random numbers. Elements 4i .. 4i+3 of a parameter come from philox(key,
// counter_of(0, i)) by Box-Muller in fp32 (pairs of words (0,1) and (2,3), the upper 24 bits of
// each; cosine first, sine second). So the value of an element depends only on its index and has
// the same bits on every instruction set and in the reference. first_element lets a shard fill its
// own part.
struct FillNormalArgs {
  RngKey key;
  float stddev = 0.0f;
  int64_t first_element = 0;
  TensorRef x_N;  // fp32, written
};
void fill_normal_ref(Stream& stream, const FillNormalArgs& args);
void check_fill_normal(const FillNormalArgs& args);  // throws ContractError

}  // namespace trireme
