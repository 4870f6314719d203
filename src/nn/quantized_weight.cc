#include "nn/quantized_weight.h"

namespace trireme {

QuantizedWeight quantized_weight(const Frame& params, const std::string& first, int64_t rows) {
  if (!params.contains(first + kQuantized)) return {};
  return {{params.stacked_rows(first + kQuantized, rows),
           params.stacked_rows(first + kQuantizedScale, rows)},
          params.find(kUnpackedWeight)};
}

void quantize_weight(const Frame& params, const std::string& name, const Frame& quantized) {
  quantize(matrix(params.at(name)),
           {matrix(quantized.at(name + kQuantized)), matrix(quantized.at(name + kQuantizedScale))});
}

}  // namespace trireme
