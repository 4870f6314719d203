#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/shape.h"

namespace trireme {

// The header of a GGUF file (docs/formats/gguf.md).
inline constexpr uint32_t kGgufMagic = 0x46554747;  // "GGUF"
inline constexpr uint32_t kGgufVersion = 3;

enum class GgufType : uint32_t {
  U8,
  I8,
  U16,
  I16,
  U32,
  I32,
  F32,
  Bool,
  String,
  Array,
  U64,
  I64,
  F64
};
// Of one value; a string and an array have a length of so many bytes at least.
uint64_t least_bytes_of(GgufType type);

struct GgufValue {
  GgufType type = GgufType::U32;
  GgufType element = GgufType::U32;  // of an Array, whose elements are not arrays themselves
  std::variant<uint64_t, int64_t, double, bool, std::string, std::vector<uint64_t>,
               std::vector<int64_t>, std::vector<double>, std::vector<std::string>>
      value;
};

GgufValue gguf_u32(uint64_t value);
GgufValue gguf_f32(double value);
GgufValue gguf_f64(double value);
GgufValue gguf_bool(bool value);
GgufValue gguf_string(std::string value);
GgufValue gguf_strings(std::vector<std::string> values);
GgufValue gguf_i32s(std::vector<int64_t> values);

// How a tensor's elements are kept; only these are read and written.
enum class GgmlType : uint32_t { F32 = 0, F16 = 1, Q8_0 = 8, BF16 = 30 };

struct GgufTensor {
  std::string name;
  Shape shape;  // outermost first, as ours; the file has them the other way round
  GgmlType type = GgmlType::F32;
  int64_t offset = 0;  // from the start of the data
  int64_t bytes() const;
};

// Bytes of so many elements of a type; rows of Q8_0 are multiples of 32 elements.
int64_t ggml_bytes(GgmlType type, int64_t num_elements);
inline constexpr int64_t kQ8Block = 32;

struct GgufHeader {
  std::vector<std::pair<std::string, GgufValue>> values;
  std::vector<GgufTensor> tensors;
  int64_t data_offset = 0;
  int64_t alignment = 32;

  const GgufValue* find(std::string_view key) const;
  const GgufTensor* find_tensor(std::string_view name) const;
};

}  // namespace trireme
