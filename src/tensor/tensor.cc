#include "tensor/tensor.h"

#include <algorithm>

namespace trireme {

Tensor::Tensor(DType dtype, Shape shape)
    : buffer_(Buffer::allocate(std::max<int64_t>(1, shape.num_elements() * size_of(dtype)))),
      dtype_(dtype),
      shape_(shape) {}

}  // namespace trireme
