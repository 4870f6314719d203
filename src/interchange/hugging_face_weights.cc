#include "interchange/hugging_face_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "base/input_limits.h"
#include "base/json_text.h"
#include "checkpoint/convert.h"
#include "checkpoint/safetensors_writer.h"
#include "interchange/hugging_face_folder.h"
#include "interchange/hugging_face_index.h"
#include "interchange/hugging_face_tensors.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

Error no_weights(const std::string& folder) {
  std::error_code ignored;
  if (fs::exists(folder + "/pytorch_model.bin", ignored)) {
    return {ErrorKind::Infeasible,
            folder +
                ": pytorch_model.bin is a pickle, which is not read; save the model again "
                "with save_pretrained(..., safe_serialization=True)"};
  }
  return damaged(fmt::format("{}: neither {} nor {}", folder, kSingle, kIndex));
}

bool has_shape(const SafetensorsEntry& entry, const Shape& shape) {
  return std::ranges::equal(entry.extents, shape.extents());
}

}  // namespace

Result<HuggingFaceWeights> HuggingFaceWeights::open(const std::string& folder,
                                                    ForeignFamily family) {
  HuggingFaceWeights weights;
  weights.folder_ = folder;
  std::error_code ignored;
  std::set<std::string> names;
  if (fs::exists(folder + "/" + kSingle, ignored)) {
    names.insert(kSingle);
  } else if (fs::exists(folder + "/" + kIndex, ignored)) {
    TRIREME_TRY(text, read_text_file(folder + "/" + kIndex, limits::kIndexFileBytes));
    auto files = parse_hugging_face_index(text);
    if (!files.ok()) return with_context(files.error(), folder + "/" + kIndex);
    names = std::move(*files);
  } else {
    return no_weights(folder);
  }
  weights.files_.reserve(names.size());  // reserved, because pointers to entries are kept
  for (const std::string& name : names) {
    TRIREME_TRY_DONE(weights.add_file(folder + "/" + name, family));
  }
  return weights;
}

Status HuggingFaceWeights::add_file(const std::string& path, ForeignFamily family) {
  TRIREME_TRY(file, SafetensorsFile::open(path));
  files_.push_back(std::move(file));
  for (const SafetensorsEntry& entry : files_.back().header().tensors) {
    const std::string name = canonical_hugging_face_name(entry.name, family);
    if (!places_.emplace(name, Place{files_.size() - 1, &entry}).second) {
      return damaged(path + ": tensor " + entry.name + " exists twice");
    }
  }
  return Done{};
}

Error HuggingFaceWeights::refuse(const Place& place, ErrorKind kind,
                                 const std::string& what) const {
  return {kind,
          fmt::format("{}: tensor {} {}", files_[place.file].path(), place.entry->name, what)};
}

Status HuggingFaceWeights::check(const std::vector<ForeignTensor>& tensors,
                                 const ModelSpec& model) const {
  std::set<std::string> known;
  for (const ForeignTensor& tensor : tensors) {
    const auto found = places_.find(tensor.name);
    if (found == places_.end()) {
      return damaged(folder_ + ": no tensor " + tensor.name +
                     ", which the model of config.json has");
    }
    const Place& place = found->second;
    if (!has_shape(*place.entry, tensor.shape)) {
      return refuse(place, ErrorKind::Damaged,
                    fmt::format("is [{}], the model of config.json has {}",
                                fmt::join(place.entry->extents, ", "), tensor.shape.to_string()));
    }
    if (!place.entry->dtype || !is_convertible(*place.entry->dtype, DType::F32)) {
      return refuse(
          place, ErrorKind::Infeasible,
          fmt::format("is of {}; F32, F16, BF16 and F64 are read", place.entry->dtype_name));
    }
    known.insert(tensor.name);
  }
  for (const auto& [name, place] : places_) {
    if (known.count(name) > 0 || is_hugging_face_buffer(name, model)) continue;
    // Its values are compared when it is read.
    if (name == "lm_head.weight" && model.tied_head) continue;
    return refuse(place, ErrorKind::Infeasible,
                  "is not part of the model that config.json describes");
  }
  return Done{};
}

Status HuggingFaceWeights::read_tensor(const ForeignTensor& tensor,
                                       std::vector<float>& elements) const {
  const Place& place = places_.at(tensor.name);
  const int64_t count = tensor.shape.num_elements();
  elements.resize(static_cast<size_t>(count));
  std::vector<std::byte> bytes(static_cast<size_t>(place.entry->end - place.entry->begin));
  TRIREME_TRY_DONE(files_[place.file].read(*place.entry, 0, bytes));
  const int64_t bad =
      copy_converted(bytes.data(), *place.entry->dtype,
                     reinterpret_cast<std::byte*>(elements.data()), DType::F32, count);
  if (bad >= 0)
    return refuse(place, ErrorKind::Damaged, fmt::format("has a NaN or Inf at element {}", bad));
  return Done{};
}

Status HuggingFaceWeights::read(const std::vector<ForeignTensor>& tensors,
                                const Weights& weights) const {
  std::vector<float> elements;
  for (const ForeignTensor& tensor : tensors) {
    TRIREME_TRY_DONE(read_tensor(tensor, elements));
    scatter(tensor, elements, weights);
  }
  const auto head = places_.find("lm_head.weight");
  if (!weights.model().tied_head || head == places_.end()) return Done{};
  const std::span<float> embedding = weights.at("embedding.tokens");
  const ForeignTensor copy{.name = "lm_head.weight", .shape = weights.shape_of("embedding.tokens")};
  if (!has_shape(*head->second.entry, copy.shape) || !head->second.entry->dtype ||
      !is_convertible(*head->second.entry->dtype, DType::F32)) {
    return refuse(head->second, ErrorKind::Damaged,
                  "is not the embedding, though the head is tied");
  }
  TRIREME_TRY_DONE(read_tensor(copy, elements));
  if (std::equal(elements.begin(), elements.end(), embedding.begin())) return Done{};
  return refuse(head->second, ErrorKind::Infeasible,
                "differs from the embedding, though config.json says tie_word_embeddings");
}

DType HuggingFaceWeights::dtype() const {
  bool any_half = false, any_bf16 = false;
  for (const auto& [name, place] : places_) {
    if (place.entry->extents.size() < 2 || !place.entry->dtype) continue;
    if (*place.entry->dtype == DType::F16)
      any_half = true;
    else if (*place.entry->dtype == DType::BF16)
      any_bf16 = true;
    else
      return DType::F32;
  }
  return any_half == any_bf16 ? DType::F32 : any_half ? DType::F16 : DType::BF16;
}

namespace {

Status write_file(const std::vector<const ForeignTensor*>& tensors, const Weights& weights,
                  const std::string& path, DType dtype) {
  std::vector<SafetensorsSpec> specs;
  for (const ForeignTensor* tensor : tensors) specs.push_back({tensor->name, dtype, tensor->shape});
  TRIREME_TRY(writer, SafetensorsWriter::create(path, specs, {{"format", "pt"}}));
  std::vector<float> elements;
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < tensors.size(); ++i) {
    elements.resize(static_cast<size_t>(tensors[i]->shape.num_elements()));
    gather(*tensors[i], weights, elements);
    bytes.resize(static_cast<size_t>(specs[i].bytes()));
    const int64_t bad =
        copy_converted(reinterpret_cast<const std::byte*>(elements.data()), DType::F32,
                       bytes.data(), dtype, static_cast<int64_t>(elements.size()));
    if (bad >= 0) {
      return Error{
          ErrorKind::Infeasible,
          fmt::format("{}: element {} of {} is {}, which {} cannot hold; take another --dtype",
                      path, bad, tensors[i]->name, elements[bad], name_of(dtype))};
    }
    TRIREME_TRY_DONE(writer.write(bytes));
  }
  TRIREME_TRY(written, writer.finish());
  (void)written;
  return Done{};
}

std::string print_index(const std::vector<std::vector<const ForeignTensor*>>& shards,
                        const std::vector<std::string>& names, DType dtype) {
  nlohmann::json map;
  int64_t bytes = 0;
  for (size_t shard = 0; shard < shards.size(); ++shard) {
    for (const ForeignTensor* tensor : shards[shard]) {
      map[tensor->name] = names[shard];
      bytes += tensor->shape.num_elements() * size_of(dtype);
    }
  }
  return json_text(
             nlohmann::ordered_json{{"metadata", {{"total_size", bytes}}}, {"weight_map", map}},
             2) +
         "\n";
}

}  // namespace

Status write_hugging_face_weights(const std::vector<ForeignTensor>& tensors, const Weights& weights,
                                  const std::string& folder,
                                  const HuggingFaceWriteOptions& options) {
  std::vector<std::vector<const ForeignTensor*>> shards(1);
  int64_t shard_bytes = 0;
  for (const ForeignTensor& tensor : tensors) {
    const int64_t bytes = tensor.shape.num_elements() * size_of(options.dtype);
    if (!shards.back().empty() && shard_bytes + bytes > options.max_shard_bytes) {
      shards.emplace_back();
      shard_bytes = 0;
    }
    shards.back().push_back(&tensor);
    shard_bytes += bytes;
  }
  std::vector<std::string> names;
  for (size_t shard = 0; shard < shards.size(); ++shard) {
    std::sort(shards[shard].begin(), shards[shard].end(),
              [](const ForeignTensor* a, const ForeignTensor* b) { return a->name < b->name; });
    names.push_back(shards.size() == 1 ? kSingle
                                       : fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1,
                                                     shards.size()));
    TRIREME_TRY_DONE(
        write_file(shards[shard], weights, folder + "/" + names.back(), options.dtype));
  }
  if (shards.size() == 1) return Done{};
  return write_file_atomically(folder + "/" + kIndex, print_index(shards, names, options.dtype));
}

}  // namespace trireme
