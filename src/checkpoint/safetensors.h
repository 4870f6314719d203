#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"
#include "base/result.h"
#include "base/shape.h"

namespace trireme {

// A tensor of a safetensors file (docs/formats/checkpoint.md).
struct SafetensorsEntry {
  std::string name;
  std::string dtype_name;        // "BF16": all of the format's are read
  std::optional<DType> dtype;    // absent for those that are not ours ("F8_E4M3")
  std::vector<int64_t> extents;  // of any rank
  int64_t begin = 0;             // bytes from the start of the data
  int64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;  // in the order of their data
  std::map<std::string, std::string> metadata;
  int64_t data_offset = 0;  // where the data starts in the file

  const SafetensorsEntry* find(std::string_view name) const;
};

std::string_view safetensors_name_of(DType dtype);                 // "BF16"
std::optional<DType> dtype_of_safetensors(std::string_view name);  // absent when not ours

// `bytes` starts the file and holds at least its header. Refuses every file that the reference
// reader refuses: sizes, holes, overlaps, overflows, duplicate names.
Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> bytes,
                                                   int64_t file_bytes);

// What a writer is told beforehand: the data follow in this order.
struct SafetensorsSpec {
  std::string name;
  DType dtype = DType::F32;
  Shape shape;
  int64_t bytes() const { return shape.num_elements() * size_of(dtype); }
};

// As the reference writer orders tensors: widest elements first, then by name. Every tensor is then
// aligned to its elements.
bool precedes_in_safetensors(const SafetensorsSpec& a, const SafetensorsSpec& b);

// Length, JSON, and spaces up to a multiple of 64 bytes, where the data start.
std::string print_safetensors_header(std::span<const SafetensorsSpec> tensors,
                                     const std::map<std::string, std::string>& metadata);

// A file, mapped: opening reads the header alone.
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::string& path);

  const std::string& path() const { return path_; }
  const SafetensorsHeader& header() const { return header_; }
  std::span<const std::byte> bytes() const { return map_.bytes(); }
  std::span<const std::byte> header_bytes() const {
    return bytes().first(static_cast<size_t>(header_.data_offset));
  }
  std::span<const std::byte> data_of(const SafetensorsEntry& tensor) const;

 private:
  SafetensorsFile(std::string path, SafetensorsHeader header, MappedFile map);
  std::string path_;
  SafetensorsHeader header_;
  MappedFile map_;
};

}  // namespace trireme
