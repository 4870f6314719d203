#include "calibrate/cold_operands.h"

#include <algorithm>

#include "base/align.h"
#include "base/check.h"

namespace trireme {
namespace {

constexpr int64_t kAlignment = 64;

}  // namespace

ColdOperands::ColdOperands(int64_t bytes) : buffer_(Buffer::allocate(round_up(bytes, kAlignment))) {
  std::fill_n(static_cast<float*>(buffer_.data()), buffer_.bytes() / int64_t{sizeof(float)}, 1e-3f);
}

TensorRef ColdOperands::next(DType dtype, Shape shape) {
  const int64_t bytes = round_up(shape.num_elements() * size_of(dtype), kAlignment);
  if (begin_ + bytes > buffer_.bytes()) begin_ = 0;
  TRIREME_CHECK(begin_ + bytes <= buffer_.bytes(), "an operand is larger than the buffer");
  const TensorRef operand{static_cast<char*>(buffer_.data()) + begin_, dtype, shape};
  begin_ += bytes;
  return operand;
}

}  // namespace trireme
