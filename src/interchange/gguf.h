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
// Least number of bytes of one value; for a string or an array, the bytes of its length.
uint64_t least_bytes_of(GgufType type);

struct GgufValue {
  GgufType type = GgufType::U32;
  GgufType element = GgufType::U32;  // element type of an Array; arrays cannot be nested
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

// Element types that are read and written. Others are refused.
enum class GgmlType : uint32_t { F32 = 0, F16 = 1, Q8_0 = 8, BF16 = 30 };

struct GgufTensor {
  std::string name;
  Shape shape;  // outermost first, as ours; the file has the reverse order
  GgmlType type = GgmlType::F32;
  int64_t offset = 0;  // from the start of the data
  int64_t bytes() const;
};

// Bytes of `num_elements` elements. Rows of Q8_0 must be multiples of 32 elements.
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
