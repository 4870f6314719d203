#include "checkpoint/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "base/hash.h"
#include "base/input_limits.h"
#include "base/json_text.h"
#include "checkpoint/strict_json.h"

namespace trireme {
namespace {

using nlohmann::json;
using strict_json::FieldError;

constexpr uint64_t kGreatestHeader = 100'000'000;  // the limit of the reference reader
constexpr int64_t kDataAlignment = 64;
static_assert(std::endian::native == std::endian::little);

struct FormatDType {
  const char* name;
  int bits;
  std::optional<DType> dtype;
};

constexpr FormatDType kDTypes[] = {
    {"F64", 64, DType::F64},      {"I64", 64, DType::I64},      {"U64", 64, std::nullopt},
    {"C64", 64, std::nullopt},    {"F32", 32, DType::F32},      {"I32", 32, DType::I32},
    {"U32", 32, DType::U32},      {"F16", 16, DType::F16},      {"BF16", 16, DType::BF16},
    {"I16", 16, std::nullopt},    {"U16", 16, DType::U16},      {"U8", 8, DType::U8},
    {"I8", 8, std::nullopt},      {"BOOL", 8, std::nullopt},    {"F8_E4M3", 8, std::nullopt},
    {"F8_E5M2", 8, std::nullopt}, {"F8_E8M0", 8, std::nullopt}, {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt}, {"F4", 4, std::nullopt},
};

const FormatDType* find_dtype(std::string_view name) {
  const auto found = std::find_if(std::begin(kDTypes), std::end(kDTypes),
                                  [&](const FormatDType& dtype) { return dtype.name == name; });
  return found == std::end(kDTypes) ? nullptr : found;
}

SafetensorsEntry parse_entry(const std::string& name, const json& object) {
  const std::string where = "tensor " + name;
  SafetensorsEntry entry{.name = name};
  entry.dtype_name = strict_json::string_member(object, "dtype", where);
  entry.extents =
      strict_json::counts(strict_json::member(object, "shape", where), where + ".shape");
  const auto offsets = strict_json::counts(strict_json::member(object, "data_offsets", where),
                                           where + ".data_offsets");
  if (offsets.size() != 2) throw FieldError{where + ".data_offsets: not two numbers"};
  entry.begin = offsets[0];
  entry.end = offsets[1];
  const FormatDType* dtype = find_dtype(entry.dtype_name);
  if (dtype == nullptr) throw FieldError{where + ": unknown dtype \"" + entry.dtype_name + "\""};
  entry.dtype = dtype->dtype;

  int64_t bits = dtype->bits;
  for (int64_t extent : entry.extents) {
    if (__builtin_mul_overflow(bits, extent, &bits)) {
      throw FieldError{where + ": more than 2^63 bits"};
    }
  }
  if (bits % 8 != 0)
    throw FieldError{where + ": " + std::to_string(bits) + " bits, no whole bytes"};
  if (entry.end < entry.begin || entry.end - entry.begin != bits / 8) {
    throw FieldError{where + ": data_offsets " + std::to_string(entry.begin) + " to " +
                     std::to_string(entry.end) + ", but dtype and shape take " +
                     std::to_string(bits / 8) + " bytes"};
  }
  return entry;
}

void parse_metadata(const json& object, std::map<std::string, std::string>& metadata) {
  if (object.is_null()) return;
  if (!object.is_object()) throw FieldError{"__metadata__: not an object"};
  for (const auto& [key, value] : object.items()) {
    if (value.is_null()) continue;
    if (!value.is_string()) throw FieldError{"__metadata__." + key + ": not a string"};
    metadata[key] = value.get<std::string>();
  }
}

// Sorts the names and refuses a name that two tensors have.
void sort_names(SafetensorsHeader& header) {
  const auto name_of = [&](uint32_t index) -> const std::string& {
    return header.tensors[index].name;
  };
  header.by_name.resize(header.tensors.size());
  std::iota(header.by_name.begin(), header.by_name.end(), 0u);
  std::sort(header.by_name.begin(), header.by_name.end(),
            [&](uint32_t a, uint32_t b) { return name_of(a) < name_of(b); });
  const auto twice =
      std::adjacent_find(header.by_name.begin(), header.by_name.end(),
                         [&](uint32_t a, uint32_t b) { return name_of(a) == name_of(b); });
  if (twice != header.by_name.end()) strict_json::refuse_twice(name_of(*twice));
}

void sort_by_place(std::vector<SafetensorsEntry>& tensors) {
  std::sort(tensors.begin(), tensors.end(),
            [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
              return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
            });
}

// Checks that the tensors follow each other without gaps from the start of the data to the end of
// the file.
void check_contiguous(const std::vector<SafetensorsEntry>& tensors, int64_t data_bytes) {
  int64_t end = 0;
  for (const SafetensorsEntry& tensor : tensors) {
    if (tensor.begin != end) {
      throw FieldError{"tensor " + tensor.name + ": its data start at " +
                       std::to_string(tensor.begin) + ", " +
                       (tensor.begin < end ? "inside the tensor before it" : "behind a hole") +
                       " that ends at " + std::to_string(tensor.begin < end ? end : tensor.begin)};
    }
    end = tensor.end;
  }
  if (end != data_bytes) {
    throw FieldError{"the tensors take " + std::to_string(end) + " bytes, the file holds " +
                     std::to_string(data_bytes) + ": truncated, or with something appended"};
  }
}

}  // namespace

const SafetensorsEntry* SafetensorsHeader::find(std::string_view name) const {
  const auto found =
      std::lower_bound(by_name.begin(), by_name.end(), name,
                       [&](uint32_t index, std::string_view n) { return tensors[index].name < n; });
  if (found == by_name.end() || tensors[*found].name != name) return nullptr;
  return &tensors[*found];
}

std::string_view safetensors_name_of(DType dtype) {
  for (const FormatDType& entry : kDTypes) {
    if (entry.dtype == dtype) return entry.name;
  }
  return "?";
}

std::optional<DType> dtype_of_safetensors(std::string_view name) {
  const FormatDType* dtype = find_dtype(name);
  return dtype == nullptr ? std::nullopt : dtype->dtype;
}

Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> bytes,
                                                   int64_t file_bytes) {
  if (file_bytes < 8 || bytes.size() < 8) {
    return damaged("not a safetensors file: " + std::to_string(file_bytes) + " bytes");
  }
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > kGreatestHeader) {
    return damaged("not a safetensors file: a header of " + std::to_string(length) +
                   " bytes (byte 0), at most " + std::to_string(kGreatestHeader));
  }
  if (length > static_cast<uint64_t>(file_bytes) - 8 || length > bytes.size() - 8) {
    return damaged("a header of " + std::to_string(length) + " bytes (byte 0) in a file of " +
                   std::to_string(file_bytes) + ": truncated");
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + 8, length);
  try {
    SafetensorsHeader header;
    header.data_offset = 8 + static_cast<int64_t>(length);
    bool has_metadata = false;
    strict_json::for_each_member(
        text, 4, {}, [&](const std::string&, const std::string& name, json& value) {
          if (name == "__metadata__") {
            if (std::exchange(has_metadata, true)) strict_json::refuse_twice(name);
            parse_metadata(value, header.metadata);
            return;
          }
          if (static_cast<int64_t>(header.tensors.size()) == limits::kTensors) {
            throw FieldError{"more than " + std::to_string(limits::kTensors) +
                             " tensors; split them into several files"};
          }
          header.tensors.push_back(parse_entry(name, value));
        });
    sort_by_place(header.tensors);
    sort_names(header);
    check_contiguous(header.tensors, file_bytes - header.data_offset);
    return header;
  } catch (const FieldError& failure) {
    return damaged("safetensors header (from byte 8): " + failure.message);
  }
}

bool precedes_in_safetensors(const SafetensorsSpec& a, const SafetensorsSpec& b) {
  const int64_t width_a = size_of(a.dtype);
  const int64_t width_b = size_of(b.dtype);
  return width_a != width_b ? width_a > width_b : a.name < b.name;
}

std::string print_safetensors_header(std::span<const SafetensorsSpec> tensors,
                                     const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json completed = metadata;
  completed["format"] = "pt";  // the transformers library refuses files without it
  std::string text = "{\"__metadata__\":" + json_text(completed);
  std::unordered_set<std::string_view> names;
  int64_t end = 0;
  for (const SafetensorsSpec& tensor : tensors) {
    TRIREME_CHECK(names.insert(tensor.name).second, "two tensors named " + tensor.name);
    const nlohmann::ordered_json entry = {{"dtype", safetensors_name_of(tensor.dtype)},
                                          {"shape", tensor.shape.extents()},
                                          {"data_offsets", {end, end + tensor.bytes()}}};
    text += "," + json_text(json(tensor.name)) + ":" + json_text(entry);
    end += tensor.bytes();
  }
  text += "}";
  const uint64_t padded =
      (8 + text.size() + kDataAlignment - 1) / kDataAlignment * kDataAlignment - 8;
  TRIREME_CHECK(padded <= kGreatestHeader, "a safetensors header above 100 MB");
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &padded, sizeof padded);
  bytes += text;
  bytes.resize(8 + padded, ' ');
  return bytes;
}

SafetensorsFile::SafetensorsFile(InputFile file, SafetensorsHeader header, uint64_t header_checksum)
    : file_(std::move(file)), header_(std::move(header)), header_checksum_(header_checksum) {}

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  TRIREME_TRY(file, InputFile::open(path));
  return open(std::move(file));
}

Result<SafetensorsFile> SafetensorsFile::open(InputFile file) {
  // The parser refuses a length that is too large; for that it needs only the length.
  uint64_t length = 0;
  if (file.bytes() >= int64_t{sizeof length}) {
    TRIREME_TRY_DONE(file.read(0, std::as_writable_bytes(std::span(&length, 1))));
  }
  const uint64_t wanted = sizeof length + std::min(length, kGreatestHeader);
  std::vector<std::byte> start(std::min(wanted, static_cast<uint64_t>(file.bytes())));
  TRIREME_TRY_DONE(file.read(0, start));
  auto header = parse_safetensors_header(start, file.bytes());
  if (!header.ok()) return with_context(header.error(), file.path());
  return SafetensorsFile(std::move(file), std::move(*header), hash64(start));
}

Status SafetensorsFile::read(const SafetensorsEntry& tensor, int64_t begin,
                             std::span<std::byte> out) const {
  return file_.read(header_.data_offset + tensor.begin + begin, out);
}

void SafetensorsFile::will_read(const SafetensorsEntry& tensor) const {
  file_.will_read(header_.data_offset + tensor.begin, tensor.end - tensor.begin);
}

}  // namespace trireme
