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
#include "base/input_file.h"
#include "base/result.h"
#include "base/shape.h"

namespace trireme {

// A tensor of a safetensors file (docs/formats/checkpoint.md).
struct SafetensorsEntry {
  std::string name;
  std::string dtype_name;        // such as "BF16"; every dtype of the format is accepted
  std::optional<DType> dtype;    // absent if we do not have the dtype ("F8_E4M3")
  std::vector<int64_t> extents;  // of any rank
  int64_t begin = 0;             // bytes from the start of the data
  int64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;  // in the order of their data
  std::map<std::string, std::string> metadata;
  std::vector<uint32_t> by_name;  // indices of tensors, sorted by name
  int64_t data_offset = 0;        // where the data begin in the file

  // Takes logarithmic time in the number of tensors.
  const SafetensorsEntry* find(std::string_view name) const;
};

std::string_view safetensors_name_of(DType dtype);  // such as "BF16"
// Absent if we do not have the dtype.
std::optional<DType> dtype_of_safetensors(std::string_view name);

// `bytes` is the start of the file and contains at least the whole header. Refuses every file that
// the reference reader refuses: wrong sizes, holes, overlaps, overflows, duplicate names.
Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> bytes,
                                                   int64_t file_bytes);

// A tensor that a writer will write. The data must follow in the order of these.
struct SafetensorsSpec {
  std::string name;
  DType dtype = DType::F32;
  Shape shape;
  int64_t bytes() const { return shape.num_elements() * size_of(dtype); }
};

// The order of the reference writer: widest elements first, then by name. It aligns every tensor to
// its elements.
bool precedes_in_safetensors(const SafetensorsSpec& a, const SafetensorsSpec& b);

// Returns the length, the JSON, and spaces up to a multiple of 64 bytes, where the data begin.
std::string print_safetensors_header(std::span<const SafetensorsSpec> tensors,
                                     const std::map<std::string, std::string>& metadata);

// A file open for reading. Opening reads only the header.
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::string& path);
  // The same for a file that is open already.
  static Result<SafetensorsFile> open(InputFile file);

  const std::string& path() const { return file_.path(); }
  int64_t bytes() const { return file_.bytes(); }
  const SafetensorsHeader& header() const { return header_; }
  // XXH3-64 of everything before the data
  uint64_t header_checksum() const { return header_checksum_; }

  // Fills `out` with bytes of a tensor, starting at its byte `begin`.
  Status read(const SafetensorsEntry& tensor, int64_t begin, std::span<std::byte> out) const;
  // Asks the system to read a tensor ahead.
  void will_read(const SafetensorsEntry& tensor) const;

 private:
  SafetensorsFile(InputFile file, SafetensorsHeader header, uint64_t header_checksum);
  InputFile file_;
  SafetensorsHeader header_;
  uint64_t header_checksum_;
};

}  // namespace trireme
