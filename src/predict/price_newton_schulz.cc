#include "predict/price_newton_schulz.h"

#include <algorithm>

#include "compile/kernel_price.h"
#include "memory/newton_schulz_memory.h"
#include "schema/newton_schulz.h"

namespace trireme {

double price_newton_schulz(const WholeMatrix& matrix, const StageShape& shape,
                           const Hardware& hardware) {
  if (hardware.is_mixed()) {
    double slowest = 0.0;
    for (int device = 0; device < hardware.num_devices(); ++device) {
      slowest =
          std::max(slowest, price_newton_schulz(matrix, shape, hardware.all_of_device(device)));
    }
    return slowest;
  }
  const NewtonSchulzMemory memory = newton_schulz_memory(matrix, shape.compute);
  double seconds = 0.0;
  for (const ProductExtents& product : newton_schulz_products(matrix.rows, matrix.cols)) {
    const Product once{.m = product.m, .n = product.n, .k = product.k};
    seconds += double(product.count) * price_product(once, memory.dtype, hardware);
  }
  // The norm reads x. The scaling reads and writes x. Each iteration reads gram and square, and
  // writes gram.
  const double elements = 3.0 * double(matrix.rows) * double(matrix.cols) +
                          NewtonSchulz::kIterations * 3.0 * double(memory.side * memory.side);
  const int calls = 2 + NewtonSchulz::kIterations;
  return seconds + price_memory(elements * double(size_of(memory.dtype)), calls, hardware);
}

}  // namespace trireme
