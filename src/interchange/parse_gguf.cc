#include "interchange/parse_gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/align.h"
#include "base/input_limits.h"

namespace trireme {
namespace {

constexpr int64_t kGreatestAlignment = 1 << 16;
constexpr int64_t kGreatestDims = 4;

struct ReadError {
  ErrorKind kind;
  std::string message;
};
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> message, Args&&... args) {
  throw ReadError{ErrorKind::Damaged, fmt::format(message, std::forward<Args>(args)...)};
}

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string string() {
    const uint64_t length = number<uint64_t>();
    const auto bytes = take(length);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  // Reads a count of things that take at least `least_bytes` each. A count that does not fit the
  // file fails here and not in an allocation.
  int64_t count(uint64_t value, uint64_t least_bytes, const char* what, int64_t most) const {
    if (value > (bytes_.size() - position_) / least_bytes)
      fail("byte {}: {} {}: truncated", position_, value, what);
    if (value > static_cast<uint64_t>(most))
      fail("byte {}: {} {}; at most {} are read", position_, value, what, most);
    return static_cast<int64_t>(value);
  }
  // Array elements take more memory than their bytes in the file, so all arrays together have one
  // limit.
  int64_t count_elements(uint64_t value, uint64_t least_bytes) {
    const int64_t count =
        this->count(value, least_bytes, "elements of arrays", limits::kGgufElements - elements_);
    elements_ += count;
    return count;
  }
  int64_t position() const { return static_cast<int64_t>(position_); }

 private:
  std::span<const std::byte> take(uint64_t length) {
    if (length > bytes_.size() - position_)
      fail("byte {}: {} bytes more than the file has: truncated", position_, length);
    const auto taken = bytes_.subspan(position_, length);
    position_ += length;
    return taken;
  }

  std::span<const std::byte> bytes_;
  size_t position_ = 0;
  int64_t elements_ = 0;  // elements of all arrays so far
};

uint64_t read_unsigned(Reader& reader, GgufType type) {
  switch (type) {
    case GgufType::U8:
      return reader.number<uint8_t>();
    case GgufType::U16:
      return reader.number<uint16_t>();
    case GgufType::U32:
      return reader.number<uint32_t>();
    default:
      return reader.number<uint64_t>();
  }
}

int64_t read_signed(Reader& reader, GgufType type) {
  switch (type) {
    case GgufType::I8:
      return reader.number<int8_t>();
    case GgufType::I16:
      return reader.number<int16_t>();
    case GgufType::I32:
      return reader.number<int32_t>();
    default:
      return reader.number<int64_t>();
  }
}

double read_real(Reader& reader, GgufType type) {
  return type == GgufType::F32 ? double(reader.number<float>()) : reader.number<double>();
}

bool is_signed(GgufType type) {
  return type == GgufType::I8 || type == GgufType::I16 || type == GgufType::I32 ||
         type == GgufType::I64;
}
bool is_real(GgufType type) { return type == GgufType::F32 || type == GgufType::F64; }

GgufType read_type(Reader& reader, const std::string& key) {
  const uint32_t type = reader.number<uint32_t>();
  if (type > static_cast<uint32_t>(GgufType::F64)) fail("{}: a value of type {}", key, type);
  return static_cast<GgufType>(type);
}

bool read_bool(Reader& reader, const std::string& key) {
  const uint8_t value = reader.number<uint8_t>();
  if (value > 1) fail("{}: {} is neither true nor false", key, value);
  return value == 1;
}

void read_array(Reader& reader, const std::string& key, GgufValue& value) {
  value.element = read_type(reader, key);
  if (value.element == GgufType::Array) fail("{}: an array of arrays", key);
  const int64_t count =
      reader.count_elements(reader.number<uint64_t>(), least_bytes_of(value.element));
  const auto fill = [&](auto list, auto read) {
    list.reserve(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) list.push_back(read());
    value.value = std::move(list);
  };
  if (value.element == GgufType::String) {
    fill(std::vector<std::string>(), [&] { return reader.string(); });
  } else if (is_real(value.element)) {
    fill(std::vector<double>(), [&] { return read_real(reader, value.element); });
  } else if (is_signed(value.element)) {
    fill(std::vector<int64_t>(), [&] { return read_signed(reader, value.element); });
  } else if (value.element == GgufType::Bool) {
    fill(std::vector<uint64_t>(), [&] { return uint64_t{read_bool(reader, key)}; });
  } else {
    fill(std::vector<uint64_t>(), [&] { return read_unsigned(reader, value.element); });
  }
}

GgufValue read_value(Reader& reader, const std::string& key) {
  GgufValue value{.type = read_type(reader, key)};
  if (value.type == GgufType::Array) {
    read_array(reader, key, value);
  } else if (value.type == GgufType::String) {
    value.value = reader.string();
  } else if (value.type == GgufType::Bool) {
    value.value = read_bool(reader, key);
  } else if (is_real(value.type)) {
    value.value = read_real(reader, value.type);
  } else if (is_signed(value.type)) {
    value.value = read_signed(reader, value.type);
  } else {
    value.value = read_unsigned(reader, value.type);
  }
  return value;
}

GgmlType known_type(uint32_t type, const std::string& name) {
  for (const GgmlType known : {GgmlType::F32, GgmlType::F16, GgmlType::Q8_0, GgmlType::BF16}) {
    if (type == static_cast<uint32_t>(known)) return known;
  }
  throw ReadError{ErrorKind::Infeasible,
                  fmt::format("tensor {} is of ggml type {}; F32, F16, BF16 and Q8_0 are supported",
                              name, type)};
}

GgufTensor read_tensor(Reader& reader) {
  GgufTensor tensor{.name = reader.string()};
  const uint32_t dims = reader.number<uint32_t>();
  if (dims < 1 || dims > kGreatestDims) fail("tensor {} has {} dims", tensor.name, dims);
  std::vector<int64_t> extents(dims);
  int64_t elements = 1;
  for (uint32_t dim = dims; dim-- > 0;) {
    const uint64_t extent = reader.number<uint64_t>();
    const bool is_sound =
        extent >= 1 && extent <= uint64_t{1} << 40 &&
        !__builtin_mul_overflow(elements, static_cast<int64_t>(extent), &elements) &&
        elements <= int64_t{1} << 50;
    if (!is_sound) fail("tensor {} has an extent of {}", tensor.name, extent);
    extents[dim] = static_cast<int64_t>(extent);
  }
  tensor.shape = Shape(extents);
  tensor.type = known_type(reader.number<uint32_t>(), tensor.name);
  if (tensor.type == GgmlType::Q8_0 && extents.back() % kQ8Block != 0) {
    fail("tensor {} is of Q8_0 with rows of {} elements", tensor.name, extents.back());
  }
  const uint64_t offset = reader.number<uint64_t>();
  if (offset > uint64_t{INT64_MAX} / 2) fail("tensor {} lies at {}", tensor.name, offset);
  tensor.offset = static_cast<int64_t>(offset);
  return tensor;
}

void check_places(const GgufHeader& header, int64_t file_bytes) {
  std::vector<const GgufTensor*> tensors;
  for (const GgufTensor& tensor : header.tensors) tensors.push_back(&tensor);
  std::sort(tensors.begin(), tensors.end(),
            [](const GgufTensor* a, const GgufTensor* b) { return a->offset < b->offset; });
  int64_t end = 0;
  for (const GgufTensor* tensor : tensors) {
    if (tensor->offset % header.alignment != 0)
      fail("tensor {} lies at {}, which is no multiple of {}", tensor->name, tensor->offset,
           header.alignment);
    if (tensor->offset < end)
      fail("tensor {} lies at {}, inside the one before it", tensor->name, tensor->offset);
    end = tensor->offset + tensor->bytes();
    if (end > file_bytes - header.data_offset)
      fail("tensor {} ends after the end of the file: truncated", tensor->name);
  }
}

GgufHeader read_header(std::span<const std::byte> bytes, int64_t file_bytes) {
  Reader reader(bytes);
  if (reader.number<uint32_t>() != kGgufMagic) fail("not a GGUF file");
  if (const uint32_t version = reader.number<uint32_t>(); version != kGgufVersion) {
    throw ReadError{ErrorKind::Infeasible,
                    fmt::format("version {}; {}, little-endian, is read", version, kGgufVersion)};
  }
  const uint64_t tensors = reader.number<uint64_t>();
  const uint64_t values = reader.number<uint64_t>();
  GgufHeader header;
  std::set<std::string> names;
  for (int64_t left = reader.count(values, 13, "keys", limits::kGgufKeys); left > 0; --left) {
    std::string key = reader.string();
    if (!names.insert(key).second) fail("the key {} twice", key);
    GgufValue value = read_value(reader, key);
    header.values.emplace_back(std::move(key), std::move(value));
  }
  names.clear();
  for (int64_t left = reader.count(tensors, 32, "tensors", limits::kTensors); left > 0; --left) {
    header.tensors.push_back(read_tensor(reader));
    if (!names.insert(header.tensors.back().name).second)
      fail("tensor {} twice", header.tensors.back().name);
  }
  if (const GgufValue* alignment = header.find("general.alignment")) {
    const auto* value = std::get_if<uint64_t>(&alignment->value);
    if (value == nullptr || *value < 8 || *value > uint64_t{kGreatestAlignment} ||
        *value % 8 != 0) {
      fail("general.alignment is no multiple of 8 up to {}", kGreatestAlignment);
    }
    header.alignment = static_cast<int64_t>(*value);
  }
  header.data_offset = round_up(reader.position(), header.alignment);
  check_places(header, file_bytes);
  return header;
}

}  // namespace

Result<GgufHeader> parse_gguf_header(std::span<const std::byte> bytes, int64_t file_bytes) {
  try {
    return read_header(bytes, file_bytes);
  } catch (const ReadError& failure) {
    return Error{failure.kind, failure.message};
  }
}

}  // namespace trireme
