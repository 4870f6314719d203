#include "interchange/print_gguf.h"

#include "base/align.h"

namespace trireme {
namespace {

template <typename T, typename From>
void put(std::string& text, From value) {
  const T number = static_cast<T>(value);
  text.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void put_string(std::string& text, const std::string& value) {
  put<uint64_t>(text, value.size());
  text += value;
}

template <typename From>
void put_number(std::string& text, GgufType type, From value) {
  if (type == GgufType::F32) return put<float>(text, value);
  if (type == GgufType::F64) return put<double>(text, value);
  switch (least_bytes_of(type)) {
    case 1:
      return put<uint8_t>(text, value);
    case 2:
      return put<uint16_t>(text, value);
    case 4:
      return put<uint32_t>(text, value);
    default:
      return put<uint64_t>(text, value);
  }
}

void put_value(std::string& text, const GgufValue& value) {
  put<uint32_t>(text, value.type);
  const auto put_list = [&](const auto& list, auto put_element) {
    put<uint32_t>(text, value.element);
    put<uint64_t>(text, list.size());
    for (const auto& element : list) put_element(element);
  };
  std::visit(
      [&](const auto& held) {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, std::string>) {
          put_string(text, held);
        } else if constexpr (std::is_same_v<Held, std::vector<std::string>>) {
          put_list(held, [&](const std::string& element) { put_string(text, element); });
        } else if constexpr (std::is_arithmetic_v<Held>) {
          put_number(text, value.type, held);
        } else {
          put_list(held, [&](auto element) { put_number(text, value.element, element); });
        }
      },
      value.value);
}

}  // namespace

std::string print_gguf_header(GgufHeader& header) {
  std::string text;
  put<uint32_t>(text, kGgufMagic);
  put<uint32_t>(text, kGgufVersion);
  put<uint64_t>(text, header.tensors.size());
  put<uint64_t>(text, header.values.size());
  for (const auto& [key, value] : header.values) {
    put_string(text, key);
    put_value(text, value);
  }
  int64_t offset = 0;
  for (GgufTensor& tensor : header.tensors) {
    tensor.offset = offset;
    offset += round_up(tensor.bytes(), header.alignment);
    put_string(text, tensor.name);
    put<uint32_t>(text, tensor.shape.rank());
    for (int dim = tensor.shape.rank(); dim-- > 0;) put<uint64_t>(text, tensor.shape[dim]);
    put<uint32_t>(text, tensor.type);
    put<uint64_t>(text, tensor.offset);
  }
  header.data_offset = round_up(static_cast<int64_t>(text.size()), header.alignment);
  text.resize(static_cast<size_t>(header.data_offset), '\0');
  return text;
}

}  // namespace trireme
