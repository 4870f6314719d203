#include "interchange/gguf_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/file.h"
#include "base/input_file.h"
#include "base/leftovers.h"
#include "interchange/gguf_elements.h"
#include "interchange/gguf_metadata.h"
#include "interchange/parse_gguf.h"
#include "interchange/print_gguf.h"

namespace trireme {
namespace {

constexpr const char* kRopeFreqs = "rope_freqs.weight";
constexpr int64_t kFirstRead = int64_t{1} << 20;
constexpr int64_t kGreatestGgufHeader = int64_t{1} << 28;  // 256 MiB; a vocabulary takes a few MiB

// Vectors, positions and routers stay in F32, because they are small and sensitive to rounding.
// Rows that are no multiple of a block are F16.
GgmlType type_of(const ForeignTensor& tensor, GgmlType wanted) {
  const int rank = tensor.shape.rank();
  const bool is_precious =
      tensor.name == "position_embd.weight" || tensor.name.ends_with(".ffn_gate_inp.weight");
  if (rank == 1 || is_precious) return GgmlType::F32;
  const bool has_blocks = tensor.shape[rank - 1] % kQ8Block == 0;
  return wanted == GgmlType::Q8_0 && !has_blocks ? GgmlType::F16 : wanted;
}

// The numbers by which programs display the kind of file.
uint64_t file_type_of(GgmlType type) {
  switch (type) {
    case GgmlType::F32:
      return 0;
    case GgmlType::F16:
      return 1;
    case GgmlType::Q8_0:
      return 7;
    case GgmlType::BF16:
      return 32;
  }
  return 0;
}

using TensorsByName = std::unordered_map<std::string_view, const GgufTensor*>;

TensorsByName by_name(const GgufHeader& header) {
  TensorsByName found;
  for (const GgufTensor& tensor : header.tensors) found.emplace(tensor.name, &tensor);
  return found;
}

Status check_tensors(const GgufHeader& header, const TensorsByName& places,
                     const std::vector<ForeignTensor>& tensors) {
  std::set<std::string> known = {kRopeFreqs};
  for (const ForeignTensor& tensor : tensors) {
    const auto place = places.find(tensor.name);
    const GgufTensor* found = place == places.end() ? nullptr : place->second;
    if (found == nullptr) return Error{ErrorKind::Damaged, "no tensor " + tensor.name};
    if (found->shape != tensor.shape) {
      return Error{ErrorKind::Damaged,
                   fmt::format("tensor {} is {}, the keys say {}", tensor.name,
                               found->shape.to_string(), tensor.shape.to_string())};
    }
    known.insert(tensor.name);
  }
  for (const GgufTensor& tensor : header.tensors) {
    if (known.count(tensor.name) == 0) {
      return Error{ErrorKind::Infeasible,
                   "tensor " + tensor.name + " is not part of the model that the keys describe"};
    }
  }
  return Done{};
}

// Only the parser knows the length of the header, so it gets twice as many bytes until it succeeds
// or has the whole file.
Result<GgufHeader> read_header(const InputFile& file) {
  std::vector<std::byte> start;
  for (int64_t bytes = kFirstRead;; bytes *= 2) {
    const auto had = static_cast<int64_t>(start.size());
    start.resize(static_cast<size_t>(std::min({bytes, file.bytes(), kGreatestGgufHeader})));
    TRIREME_TRY_DONE(file.read(had, std::span(start).subspan(static_cast<size_t>(had))));
    auto header = parse_gguf_header(start, file.bytes());
    const bool needs_more = !header.ok() && header.error().kind == ErrorKind::Damaged;
    if (!needs_more || bytes >= std::min(file.bytes(), kGreatestGgufHeader)) return header;
  }
}

Status read_tensors(const GgufHeader& header, const TensorsByName& places, const InputFile& file,
                    const std::vector<ForeignTensor>& tensors, const Weights& weights) {
  std::vector<float> elements;
  std::vector<std::byte> bytes;
  for (const ForeignTensor& tensor : tensors) {
    const GgufTensor& place = *places.at(tensor.name);
    elements.resize(static_cast<size_t>(tensor.shape.num_elements()));
    bytes.resize(static_cast<size_t>(place.bytes()));
    TRIREME_TRY_DONE(file.read(header.data_offset + place.offset, bytes));
    const int64_t bad = decode_ggml(place.type, bytes, elements);
    if (bad >= 0) {
      return Error{ErrorKind::Damaged,
                   fmt::format("tensor {} has a NaN or Inf at element {}", tensor.name, bad)};
    }
    scatter(tensor, elements, weights);
  }
  return Done{};
}

Result<InterchangeModel> read_model(const InputFile& file) {
  TRIREME_TRY(header, read_header(file));
  TRIREME_TRY(described, gguf_model_of(header));
  const ModelConfig& config = described.config;
  TRIREME_TRY(spec, resolve_foreign(config));
  const std::vector<ForeignTensor> tensors =
      gguf_tensors(spec, described.family, described.logit_scale);
  const TensorsByName places = by_name(header);
  TRIREME_TRY_DONE(
      // Checked before memory is allocated for what the keys claim.
      check_tensors(header, places, tensors));
  InterchangeModel model{.config = config, .weights = Weights(spec)};
  TRIREME_TRY_DONE(read_tensors(header, places, file, tensors, model.weights));
  const GgmlType type = header.find_tensor("token_embd.weight")->type;
  model.dtype = type == GgmlType::BF16  ? DType::BF16
                : type == GgmlType::F32 ? DType::F32
                                        : DType::F16;
  auto tokenizer = gguf_tokenizer_of(header);
  if (tokenizer.ok()) {
    model.tokenizer = std::move(*tokenizer);
  } else {
    model.notes.push_back("no tokenizer: " + tokenizer.error().message);
  }
  return model;
}

// Streams the data after the header and pads each tensor to the alignment.
class DataWriter {
 public:
  DataWriter(AtomicFile& file, const GgufHeader& header) : file_(file), header_(header) {}

  Status write(const GgufTensor& tensor, std::span<const float> elements) {
    const int64_t bad = encode_ggml(tensor.type, elements, bytes_);
    if (bad >= 0) {
      return Error{
          ErrorKind::Infeasible,
          fmt::format("{}: element {} has a value that the type cannot hold; use another --dtype",
                      tensor.name, bad)};
    }
    const int64_t padding =
        (header_.alignment - tensor.bytes() % header_.alignment) % header_.alignment;
    bytes_.resize(bytes_.size() + static_cast<size_t>(padding));
    return file_.write(bytes_);
  }

 private:
  AtomicFile& file_;
  const GgufHeader& header_;
  std::vector<std::byte> bytes_;
};

}  // namespace

Result<InterchangeModel> read_gguf(const std::string& path) {
  TRIREME_TRY(file, InputFile::open(path));
  auto model = read_model(file);
  if (!model.ok()) return with_context(model.error(), path);
  return model;
}

Status write_gguf(const InterchangeModel& model, const std::string& path,
                  const GgufWriteOptions& options) {
  const ModelSpec& spec = model.weights.model();
  TRIREME_TRY(family, foreign_family(spec));
  GgufHeader header;
  TRIREME_TRY_DONE(add_gguf_model(spec, header));
  header.values.emplace_back("general.type", gguf_string("model"));
  header.values.emplace_back("general.name", gguf_string(options.name));
  header.values.emplace_back("general.file_type", gguf_u32(file_type_of(options.matrices)));
  header.values.emplace_back("general.quantization_version", gguf_u32(2));
  TRIREME_TRY_DONE(add_gguf_tokenizer(model.tokenizer.get(), spec.vocab_size, header));
  const std::vector<ForeignTensor> tensors = gguf_tensors(spec, family);
  const std::vector<float> rope_freqs = gguf_rope_freqs(spec);
  for (const ForeignTensor& tensor : tensors) {
    header.tensors.push_back({tensor.name, tensor.shape, type_of(tensor, options.matrices)});
  }
  if (!rope_freqs.empty()) {
    header.tensors.push_back(
        {kRopeFreqs, Shape{static_cast<int64_t>(rope_freqs.size())}, GgmlType::F32});
  }
  remove_leftovers_of(path);
  TRIREME_TRY(file, AtomicFile::create(path));
  TRIREME_TRY_DONE(file.write(print_gguf_header(header)));
  DataWriter writer(file, header);
  std::vector<float> elements;
  for (size_t i = 0; i < tensors.size(); ++i) {
    elements.resize(static_cast<size_t>(tensors[i].shape.num_elements()));
    gather(tensors[i], model.weights, elements);
    const Status written = writer.write(header.tensors[i], elements);
    if (!written.ok()) return with_context(written.error(), path);
  }
  if (!rope_freqs.empty()) TRIREME_TRY_DONE(writer.write(header.tensors.back(), rope_freqs));
  return file.commit();
}

}  // namespace trireme
