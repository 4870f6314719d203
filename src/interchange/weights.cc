#include "interchange/weights.h"

namespace trireme {

Weights::Weights(const ModelSpec& model)
    : model_(model), params_(param_table(model, whole_model(model))) {
  for (const ParamSpec& param : params_) {
    table_.add(param.name, param.shape, DType::F32, param.adjoins_previous);
  }
  memory_ = Buffer::allocate(table_.bytes());
}

std::span<float> Weights::at(const std::string& name) const {
  const TensorRef tensor = frame().at(name);
  return {static_cast<float*>(tensor.data), static_cast<size_t>(tensor.shape.num_elements())};
}

}  // namespace trireme
