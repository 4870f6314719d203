#include "checkpoint/checkpoint_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/hash.h"
#include "base/json_text.h"
#include "checkpoint/check_coverage.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/strict_json.h"

namespace trireme {
namespace {

using nlohmann::json;
using strict_json::FieldError;

constexpr std::string_view kFormat = "trireme-checkpoint";
constexpr std::string_view kChecksumKey = ",\n\"checksum\":\"";  // followed by 16 digits and this:
constexpr std::string_view kEnd = "\"}\n";

json print_file(const StoredFile& file) {
  return {{"bytes", file.bytes}, {"checksum", hex64(file.checksum)}};
}

json print_slice(const StoredSlice& stored) {
  json object = {
      {"file", stored.file}, {"offset", stored.offset}, {"checksum", hex64(stored.checksum)}};
  const Slice& slice = stored.slice;
  if (slice.is_box()) {
    object["begin"] = slice.begin().extents();
    object["extent"] = slice.extent().extents();
  } else {
    object["range"] = {slice.first(), slice.count()};
  }
  return object;
}

json print_tensor(const StoredTensor& tensor) {
  json slices = json::array();
  for (const StoredSlice& slice : tensor.slices) slices.push_back(print_slice(slice));
  return {{"dtype", safetensors_name_of(tensor.dtype)},
          {"shape", tensor.shape.extents()},
          {"slices", std::move(slices)}};
}

// Prints one entry per line, so that the index of a large model can be read with less and grep.
template <typename Map, typename Print>
std::string print_lines(const Map& entries, Print&& print) {
  std::string text = "{";
  const char* separator = "\n";
  for (const auto& [name, value] : entries) {
    text += separator + json_text(json(name)) + ":" + json_text(print(value));
    separator = ",\n";
  }
  return text + "}";
}

std::string print_contents(const IndexPart& part) {
  return "\"shards\":" + print_lines(part.shards, print_file) +
         ",\n\"tensors\":" + print_lines(part.tensors, print_tensor);
}

void check_file_name(const std::string& name) {
  const bool plain = !name.empty() && name != "." && name != ".." && name != "index.json" &&
                     name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
  if (!plain) throw FieldError{"\"" + name + "\" is not a file name in this folder"};
}

StoredFile parse_file(const std::string& name, const json& value, const std::string& where) {
  check_file_name(name);
  return {.bytes = strict_json::count_member(value, "bytes", where + "." + name),
          .checksum = strict_json::hex_member(value, "checksum", where + "." + name)};
}

Shape parse_shape(const json& object, const char* key, const std::string& where) {
  const auto extents = strict_json::counts(strict_json::member(object, key, where), where);
  if (extents.size() > 4) throw FieldError{where + "." + key + ": more than four dims"};
  return Shape(extents);
}

// Checks that the size of the whole tensor in bytes does not overflow.
void check_size(const StoredTensor& tensor, const std::string& where) {
  int64_t bytes = size_of(tensor.dtype);
  for (int64_t extent : tensor.shape.extents()) {
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(extent, 1), &bytes)) {
      throw FieldError{where + ".shape: more than 2^63 bytes"};
    }
  }
}

StoredSlice parse_slice(const json& object, const Shape& shape, const std::string& where) {
  StoredSlice stored;
  stored.file = strict_json::string_member(object, "file", where);
  check_file_name(stored.file);
  stored.offset = strict_json::count_member(object, "offset", where);
  stored.checksum = strict_json::hex_member(object, "checksum", where);
  if (object.contains("range")) {
    const auto range = strict_json::counts(object["range"], where + ".range");
    if (range.size() != 2) throw FieldError{where + ".range: not two numbers"};
    stored.slice = Slice::range(range[0], range[1]);
  } else {
    stored.slice =
        Slice::box(parse_shape(object, "begin", where), parse_shape(object, "extent", where));
  }
  if (!stored.slice.fits(shape)) {
    throw FieldError{where + ": lies outside the tensor of shape " + shape.to_string()};
  }
  return stored;
}

StoredTensor parse_tensor(const json& object, const std::string& where) {
  StoredTensor tensor;
  const std::string dtype = strict_json::string_member(object, "dtype", where);
  if (!dtype_of_safetensors(dtype)) throw FieldError{where + ": unknown dtype \"" + dtype + "\""};
  tensor.dtype = *dtype_of_safetensors(dtype);
  tensor.shape = parse_shape(object, "shape", where);
  check_size(tensor, where);
  const json& slices = strict_json::member(object, "slices", where);
  if (!slices.is_array()) throw FieldError{where + ".slices: not an array"};
  for (const json& slice : slices) {
    tensor.slices.push_back(parse_slice(slice, tensor.shape, where + ".slices"));
  }
  return tensor;
}

// Checks that every slice lies inside a listed shard.
void check_places(const IndexPart& part) {
  for (const auto& [name, tensor] : part.tensors) {
    for (const StoredSlice& slice : tensor.slices) {
      const auto shard = part.shards.find(slice.file);
      if (shard == part.shards.end()) {
        throw FieldError{"tensor " + name + ": lies in " + slice.file + ", which is not listed"};
      }
      const int64_t bytes = slice.slice.num_elements() * size_of(tensor.dtype);
      if (slice.offset > shard->second.bytes || bytes > shard->second.bytes - slice.offset) {
        throw FieldError{"tensor " + name + ": reaches over the end of " + slice.file};
      }
    }
  }
}

struct ParsedIndex {
  json fields = json::object();  // everything except the entries of the sections
  std::map<std::string, StoredFile> attached;
  IndexPart contents;
};

// Reads an index entry by entry. It must have all `sections`.
ParsedIndex read_entries(std::string_view text, const std::string& where,
                         const std::vector<std::string>& sections) {
  ParsedIndex parsed;
  IndexPart& part = parsed.contents;
  const auto add = [](auto& entries, const std::string& name, auto&& entry) {
    if (!entries.emplace(name, std::forward<decltype(entry)>(entry)).second) {
      strict_json::refuse_twice(name);
    }
  };
  strict_json::for_each_member(
      text, 8, sections, [&](const std::string& section, const std::string& name, json& value) {
        if (section == "shards") {
          add(part.shards, name, parse_file(name, value, section));
        } else if (section == "attached") {
          add(parsed.attached, name, parse_file(name, value, section));
        } else if (section == "tensors") {
          add(part.tensors, name, parse_tensor(value, "tensor " + name));
        } else {
          add(parsed.fields.get_ref<json::object_t&>(), name, std::move(value));
        }
      });
  for (const std::string& section : sections) {
    strict_json::object_member(parsed.fields, section.c_str(), where);
  }
  check_places(part);
  return parsed;
}

json print_ranges(const std::vector<SampleRange>& ranges) {
  json list = json::array();
  for (const SampleRange& range : ranges) list.push_back({range.first, range.count});
  return list;
}

std::vector<SampleRange> parse_ranges(const json& list, const std::string& where) {
  if (!list.is_array()) throw FieldError{where + ": not an array"};
  std::vector<SampleRange> ranges;
  for (const json& entry : list) {
    const auto numbers = strict_json::counts(entry, where);
    int64_t end = 0;
    if (numbers.size() != 2 || __builtin_add_overflow(numbers[0], numbers[1], &end)) {
      throw FieldError{where + ": not ranges of samples"};
    }
    ranges.push_back({numbers[0], numbers[1]});
  }
  return ranges;
}

CheckpointInfo parse_info(const json& object, const std::string& where) {
  CheckpointInfo info;
  info.step = strict_json::count_member(object, "step", where);
  info.next_sample = strict_json::count_member(object, "next_sample", where);
  info.tokens_seen = strict_json::count_member(object, "tokens_seen", where);
  if (object.contains("left_out")) {
    info.left_out = parse_ranges(object["left_out"], where + ".left_out");
  }
  info.seed = strict_json::hex_member(object, "seed", where);
  info.data_identity = strict_json::string_member(object, "data_identity", where);
  info.optimizer = strict_json::string_member(object, "optimizer", where);
  const json& scalars = strict_json::object_member(object, "optimizer_scalars", where);
  for (const auto& [name, value] : scalars.items()) {
    if (!value.is_number()) throw FieldError{where + ".optimizer_scalars." + name + ": no number"};
    info.optimizer_scalars[name] = value.get<double>();
  }
  return info;
}

// Checks the checksum and returns the text before it.
std::string_view check_checksum(std::string_view text) {
  const size_t tail = kChecksumKey.size() + 16 + kEnd.size();
  if (text.size() < tail || text.substr(text.size() - tail, kChecksumKey.size()) != kChecksumKey ||
      !text.ends_with(kEnd)) {
    throw FieldError{"does not end with its checksum: truncated, or not the index of a checkpoint"};
  }
  const std::string_view body = text.substr(0, text.size() - tail);
  const std::string_view stored = text.substr(text.size() - kEnd.size() - 16, 16);
  if (stored != hex64(hash64(body))) {
    throw FieldError{fmt::format("has checksum {}, its last line says {}: damaged",
                                 hex64(hash64(body)), stored)};
  }
  return body;
}

std::string print_whole(const CheckpointInfo& info,
                        const std::map<std::string, StoredFile>& attached,
                        const std::string& contents) {
  for (const auto& [name, value] : info.optimizer_scalars) {
    TRIREME_CHECK(std::isfinite(value), "optimizer scalar " + name + " is not finite");
  }
  std::string text = fmt::format(
      "{{\"format\":\"{}\",\n\"version\":{},\n\"step\":{},\n\"next_sample\":{},\n"
      "\"tokens_seen\":{},\n\"seed\":\"{}\",\n\"data_identity\":{},\n\"optimizer\":{},\n"
      "\"optimizer_scalars\":{},\n",
      kFormat, kCheckpointVersion, info.step, info.next_sample, info.tokens_seen, hex64(info.seed),
      json_text(json(info.data_identity)), json_text(json(info.optimizer)),
      json_text(json(info.optimizer_scalars)));
  if (!info.left_out.empty())
    text += "\"left_out\":" + json_text(print_ranges(info.left_out)) + ",\n";
  text += "\"attached\":" + print_lines(attached, print_file) + ",\n";
  text += contents;
  const std::string checksum = hex64(hash64(text));
  return text.append(kChecksumKey).append(checksum).append(kEnd);
}

}  // namespace

std::string print_index(const CheckpointIndex& index) {
  return print_whole(index.info, index.attached, print_contents(index.contents));
}

IndexTemplate::IndexTemplate(const IndexPart& numbered) : contents_(print_contents(numbered)) {
  // A name cannot contain this text, because its quotation marks are escaped.
  constexpr std::string_view kKey = "\"checksum\":\"";
  size_t at = 0;
  const auto next = [&] { return at = contents_.find(kKey, at) + kKey.size(); };
  for (size_t shard = 0; shard < numbered.shards.size(); ++shard) next();
  for (const auto& [name, tensor] : numbered.tensors) {
    for (const StoredSlice& slice : tensor.slices) {
      places_.resize(std::max(places_.size(), size_t(slice.checksum) + 1));
      places_[slice.checksum] = next();
    }
  }
}

std::string IndexTemplate::print(const CheckpointInfo& info,
                                 const std::map<std::string, StoredFile>& attached,
                                 std::span<const uint64_t> checksums) const {
  TRIREME_CHECK(checksums.size() == places_.size(), "checksums of another index");
  std::string contents = contents_;
  for (size_t number = 0; number < places_.size(); ++number) {
    contents.replace(places_[number], 16, hex64(checksums[number]));
  }
  return print_whole(info, attached, contents);
}

Result<CheckpointIndex> parse_index(std::string_view text) {
  try {
    const std::string body = std::string(check_checksum(text)) + "}";
    const std::string where = "index";
    ParsedIndex parsed = read_entries(body, where, {"attached", "shards", "tensors"});
    if (strict_json::string_member(parsed.fields, "format", where) != kFormat) {
      throw FieldError{"not the index of a checkpoint"};
    }
    const int64_t version = strict_json::count_member(parsed.fields, "version", where);
    if (version != kCheckpointVersion) {
      throw FieldError{fmt::format("version {} of the format; this program reads version {}",
                                   version, kCheckpointVersion)};
    }
    CheckpointIndex index{.info = parse_info(parsed.fields, where),
                          .contents = std::move(parsed.contents),
                          .attached = std::move(parsed.attached)};
    TRIREME_TRY_DONE(check_coverage(index.contents));
    return index;
  } catch (const FieldError& failure) {
    return damaged(failure.message);
  }
}

std::string print_index_part(const IndexPart& part) { return "{" + print_contents(part) + "}"; }

Result<IndexPart> parse_index_part(std::string_view text) {
  try {
    return read_entries(text, "part of an index", {"shards", "tensors"}).contents;
  } catch (const FieldError& failure) {
    return damaged(failure.message);
  }
}

Status merge_index_part(IndexPart& contents, const IndexPart& part) {
  for (const auto& [name, shard] : part.shards) {
    if (!contents.shards.emplace(name, shard).second) return damaged("two ranks wrote " + name);
  }
  for (const auto& [name, tensor] : part.tensors) {
    const auto [merged, is_new] = contents.tensors.emplace(name, tensor);
    if (is_new) continue;
    StoredTensor& whole = merged->second;
    if (whole.dtype != tensor.dtype || !(whole.shape == tensor.shape)) {
      return damaged(fmt::format("tensor {}: one rank wrote it as {} {}, another as {} {}", name,
                                 name_of(whole.dtype), whole.shape.to_string(),
                                 name_of(tensor.dtype), tensor.shape.to_string()));
    }
    whole.slices.insert(whole.slices.end(), tensor.slices.begin(), tensor.slices.end());
  }
  return Done{};
}

SafetensorsSpec spec_in_shard(const std::string& name, DType dtype, const Shape& full_shape,
                              const Slice& slice) {
  if (slice.is_whole(full_shape)) return {name, dtype, full_shape};
  return {name + slice.to_string(), dtype, slice.is_box() ? slice.extent() : Shape{slice.count()}};
}

std::string step_folder_name(int64_t step) { return fmt::format("step-{:06}", step); }

int64_t step_of_folder_name(std::string_view name) {
  if (!name.starts_with("step-")) return -1;
  const std::string_view digits = name.substr(5);
  int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc() || end != digits.data() + digits.size() || step < 0) return -1;
  return step_folder_name(step) == name ? step : -1;
}

}  // namespace trireme
