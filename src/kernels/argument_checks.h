#pragma once

#include <string_view>

#include "tensor/matrix.h"

namespace trireme {

// Checks of kernel arguments. Each throws ContractError with the argument's name, its value and the
// expected value. They are not inline, because the *_cpu.cc files must not compile strings.
bool is_compute_dtype(DType dtype);                           // fp32, bf16, fp16
void check_float(std::string_view name, const MatrixRef& x);  // checks for such a dtype
void check_matrix(std::string_view name, const MatrixRef& x, int64_t rows, int64_t cols,
                  DType dtype);
void check_tensor(std::string_view name, const TensorRef& x, int64_t num_elements, DType dtype);
// Checks for fp32 or bf16, the dtypes of gradients of parameters and of the optimizer's state.
void check_state(std::string_view name, const TensorRef& x, int64_t num_elements);
void check_state(std::string_view name, const MatrixRef& x, int64_t rows, int64_t cols);
// Checks int32 positions of so many rows, each in [0, num_positions).
void check_positions(const TensorRef& position_T, int64_t rows, int64_t num_positions);
void check_argument(bool holds, std::string_view rule);
// These checks accept an argument that is absent.
void check_if_present(std::string_view name, const MatrixRef& x, int64_t rows, int64_t cols,
                      DType dtype);
void check_if_present(std::string_view name, const TensorRef& x, int64_t num_elements, DType dtype);

}  // namespace trireme
