#include "kernels/argument_checks.h"

#include <fmt/format.h>

namespace trireme {

bool is_compute_dtype(DType dtype) {
  return dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16;
}

void check_float(std::string_view name, const MatrixRef& x) {
  TRIREME_CHECK(is_compute_dtype(x.dtype),
                fmt::format("{} is {}, should be fp32, bf16 or fp16", name, name_of(x.dtype)));
  TRIREME_CHECK(x.stride >= x.cols,
                fmt::format("{} has rows of {} columns {} apart", name, x.cols, x.stride));
}

void check_matrix(std::string_view name, const MatrixRef& x, int64_t rows, int64_t cols,
                  DType dtype) {
  const bool fits = x.rows == rows && x.cols == cols && x.stride >= cols && x.dtype == dtype;
  TRIREME_CHECK(
      fits, fmt::format("{} is {} [{}, {}] with rows {} apart, should be {} [{}, {}]", name,
                        name_of(x.dtype), x.rows, x.cols, x.stride, name_of(dtype), rows, cols));
}

void check_tensor(std::string_view name, const TensorRef& x, int64_t num_elements, DType dtype) {
  TRIREME_CHECK(x.num_elements() == num_elements && x.dtype == dtype,
                fmt::format("{} is {} {}, should be {} of {} elements", name, name_of(x.dtype),
                            x.shape.to_string(), name_of(dtype), num_elements));
}

void check_state(std::string_view name, const TensorRef& x, int64_t num_elements) {
  check_tensor(name, x, num_elements, x.dtype == DType::BF16 ? DType::BF16 : DType::F32);
}

void check_state(std::string_view name, const MatrixRef& x, int64_t rows, int64_t cols) {
  check_matrix(name, x, rows, cols, x.dtype == DType::BF16 ? DType::BF16 : DType::F32);
}

void check_positions(const TensorRef& position_T, int64_t rows, int64_t num_positions) {
  check_tensor("positions", position_T, rows, DType::I32);
  const auto* position = static_cast<const int32_t*>(position_T.data);
  bool inside = true;
  for (int64_t t = 0; t < rows; ++t) inside &= position[t] >= 0 && position[t] < num_positions;
  check_argument(inside, "the tables hold every row's position");
}

void check_argument(bool holds, std::string_view rule) { TRIREME_CHECK(holds, std::string(rule)); }

void check_if_present(std::string_view name, const MatrixRef& x, int64_t rows, int64_t cols,
                      DType dtype) {
  if (x) check_matrix(name, x, rows, cols, dtype);
}

void check_if_present(std::string_view name, const TensorRef& x, int64_t num_elements,
                      DType dtype) {
  if (x) check_tensor(name, x, num_elements, dtype);
}

}  // namespace trireme
