#include "interchange/llmc_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/file.h"
#include "base/input_file.h"
#include "base/leftovers.h"
#include "checkpoint/convert.h"
#include "interchange/foreign_family.h"
#include "interchange/foreign_tensor_list.h"
#include "interchange/llmc_header.h"

namespace trireme {
namespace {

constexpr int64_t kVocabMultiple = 128;

ModelConfig config_of(const LlmcModelHeader& header) {
  ModelConfig config;
  config.layers = header.layers;
  config.d_model = header.d_model;
  config.heads = header.heads;
  config.vocab_size = header.vocab_size;
  config.seq_len = header.seq_len;
  return config;
}

// The file is a list of tensor kinds; each kind holds all layers, one after the other.
std::vector<ForeignTensor> llmc_tensors(const ModelSpec& model, int64_t padded_vocab_size) {
  const int64_t C = model.d_model;
  struct Kind {
    const char* name;
    Shape shape;
    std::vector<const char*> params;
    float fill;
  };
  const Kind kinds[] = {
      {"ln1w", {C}, {"norm1.gain"}, 1.0f},
      {"ln1b", {C}, {"norm1.bias"}, 0.0f},
      {"qkvw", {3 * C, C}, {"attn.wq", "attn.wk", "attn.wv"}, 0.0f},
      {"qkvb", {3 * C}, {"attn.bq", "attn.bk", "attn.bv"}, 0.0f},
      {"attprojw", {C, C}, {"attn.wo"}, 0.0f},
      {"attprojb", {C}, {"attn.bo"}, 0.0f},
      {"ln2w", {C}, {"norm2.gain"}, 1.0f},
      {"ln2b", {C}, {"norm2.bias"}, 0.0f},
      {"fcw", {4 * C, C}, {"mlp.w_up"}, 0.0f},
      {"fcb", {4 * C}, {"mlp.b_up"}, 0.0f},
      {"fcprojw", {C, 4 * C}, {"mlp.w_down"}, 0.0f},
      {"fcprojb", {C}, {"mlp.b_down"}, 0.0f},
  };
  ForeignTensorList list(model);
  list.add_filled("wte", Shape{padded_vocab_size, C}, {"embedding.tokens"});
  list.add("wpe", {"embedding.positions"});
  for (const Kind& kind : kinds) {
    for (int64_t i = 0; i < model.layers; ++i) {
      std::vector<std::string> params;
      for (const char* param : kind.params) params.push_back(fmt::format("layers.{}.{}", i, param));
      list.add_filled(fmt::format("{}[{}]", kind.name, i), kind.shape, std::move(params),
                      kind.fill);
    }
  }
  list.add_filled("lnfw", Shape{C}, {"final_norm.gain"}, 1.0f);
  list.add_filled("lnfb", Shape{C}, {"final_norm.bias"});
  return list.take();
}

Status check_model(const ModelSpec& model) {
  const auto refuse = [](const std::string& what) {
    return Error{ErrorKind::Infeasible, "a file of llm.c holds a GPT-2 with " + what +
                                            "; this model does not have that; a Hugging Face "
                                            "folder (--format hf) holds more kinds"};
  };
  TRIREME_TRY(family, foreign_family(model));
  if (family != ForeignFamily::Gpt2) return refuse("learned positions");
  if (model.mlp != MlpType::GeluTanh) return refuse("GELU by tanh");
  if (model.d_ff != 4 * model.d_model) return refuse("d_ff = 4 d_model");
  if (!model.tied_head) return refuse("a tied head");
  if (model.norm_eps != 1e-5) return refuse("an epsilon of 1e-5 in its norms");
  return Done{};
}

}  // namespace

Result<InterchangeModel> read_llmc_model(const std::string& path) {
  TRIREME_TRY(file, InputFile::open(path));
  std::vector<std::byte> bytes(static_cast<size_t>(std::min(file.bytes(), kLlmcHeaderBytes)));
  TRIREME_TRY_DONE(file.read(0, bytes));
  auto header = parse_llmc_model_header(bytes);
  if (!header.ok()) return with_context(header.error(), path);
  if (file.bytes() != llmc_file_bytes(*header)) {
    return damaged(fmt::format("{}: the header describes {} bytes, the file has {}", path,
                               llmc_file_bytes(*header), file.bytes()));
  }
  const ModelConfig config = config_of(*header);
  TRIREME_TRY(spec, resolve_foreign(config));
  InterchangeModel model{.config = config, .weights = Weights(spec), .dtype = header->dtype};
  int64_t place = kLlmcHeaderBytes;
  std::vector<float> elements;
  for (const ForeignTensor& tensor : llmc_tensors(spec, header->padded_vocab_size)) {
    const int64_t count = tensor.shape.num_elements();
    elements.resize(static_cast<size_t>(count));
    bytes.resize(static_cast<size_t>(count * size_of(header->dtype)));
    TRIREME_TRY_DONE(file.read(place, bytes));
    const int64_t bad =
        copy_converted(bytes.data(), header->dtype, reinterpret_cast<std::byte*>(elements.data()),
                       DType::F32, count);
    if (bad >= 0)
      return damaged(fmt::format("{}: {} has a NaN or Inf at element {}", path, tensor.name, bad));
    scatter(tensor, elements, model.weights);
    place += count * size_of(header->dtype);
  }
  return model;
}

Status write_llmc_model(const InterchangeModel& model, const std::string& path, DType dtype) {
  const ModelSpec& spec = model.weights.model();
  TRIREME_TRY_DONE(check_model(spec));
  if (dtype != DType::F32 && dtype != DType::BF16) {
    return Error{ErrorKind::Usage,
                 "llm.c keeps models in fp32 or bf16; choose --dtype fp32 or bf16"};
  }
  const int64_t padded = (spec.vocab_size + kVocabMultiple - 1) / kVocabMultiple * kVocabMultiple;
  remove_leftovers_of(path);
  TRIREME_TRY(file, AtomicFile::create(path));
  TRIREME_TRY_DONE(file.write(print_llmc_model_header(
      {dtype, spec.seq_len, spec.vocab_size, spec.layers, spec.heads, spec.d_model, padded})));
  std::vector<float> elements;
  std::vector<std::byte> bytes;
  for (const ForeignTensor& tensor : llmc_tensors(spec, padded)) {
    const int64_t count = tensor.shape.num_elements();
    elements.resize(static_cast<size_t>(count));
    gather(tensor, model.weights, elements);
    bytes.resize(static_cast<size_t>(count * size_of(dtype)));
    const int64_t bad = copy_converted(reinterpret_cast<const std::byte*>(elements.data()),
                                       DType::F32, bytes.data(), dtype, count);
    if (bad >= 0) {
      return Error{ErrorKind::Infeasible, fmt::format("{}: element {} of {} is more than {} holds",
                                                      path, bad, tensor.name, name_of(dtype))};
    }
    TRIREME_TRY_DONE(file.write(bytes));
  }
  return file.commit();
}

}  // namespace trireme
