#include "interchange/gguf.h"

namespace trireme {

GgufValue gguf_u32(uint64_t value) { return {.type = GgufType::U32, .value = value}; }
GgufValue gguf_f32(double value) { return {.type = GgufType::F32, .value = value}; }
GgufValue gguf_f64(double value) { return {.type = GgufType::F64, .value = value}; }
GgufValue gguf_bool(bool value) { return {.type = GgufType::Bool, .value = value}; }
GgufValue gguf_string(std::string value) {
  return {.type = GgufType::String, .value = std::move(value)};
}
GgufValue gguf_strings(std::vector<std::string> values) {
  return {.type = GgufType::Array, .element = GgufType::String, .value = std::move(values)};
}
GgufValue gguf_i32s(std::vector<int64_t> values) {
  return {.type = GgufType::Array, .element = GgufType::I32, .value = std::move(values)};
}

uint64_t least_bytes_of(GgufType type) {
  switch (type) {
    case GgufType::U8:
    case GgufType::I8:
    case GgufType::Bool:
      return 1;
    case GgufType::U16:
    case GgufType::I16:
      return 2;
    case GgufType::U32:
    case GgufType::I32:
    case GgufType::F32:
      return 4;
    default:
      return 8;
  }
}

int64_t ggml_bytes(GgmlType type, int64_t num_elements) {
  switch (type) {
    case GgmlType::F32:
      return 4 * num_elements;
    case GgmlType::F16:
    case GgmlType::BF16:
      return 2 * num_elements;
    case GgmlType::Q8_0:
      return num_elements / kQ8Block * (2 + kQ8Block);
  }
  return 0;
}

int64_t GgufTensor::bytes() const { return ggml_bytes(type, shape.num_elements()); }

const GgufValue* GgufHeader::find(std::string_view key) const {
  for (const auto& [name, value] : values) {
    if (name == key) return &value;
  }
  return nullptr;
}

const GgufTensor* GgufHeader::find_tensor(std::string_view name) const {
  for (const GgufTensor& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

}  // namespace trireme
