#include "interchange/foreign_model.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/input_file.h"
#include "checkpoint/safetensors.h"
#include "interchange/foreign_family.h"
#include "interchange/gguf.h"
#include "interchange/gguf_model.h"
#include "interchange/hugging_face_folder.h"
#include "interchange/llmc_header.h"
#include "interchange/llmc_model.h"
#include "interchange/torchvision_resnet.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

DType file_dtype(Rounding rounding) {
  return rounding == Rounding::F16    ? DType::F16
         : rounding == Rounding::BF16 ? DType::BF16
                                      : DType::F32;
}

GgmlType ggml_type(Rounding rounding) {
  return rounding == Rounding::F16    ? GgmlType::F16
         : rounding == Rounding::BF16 ? GgmlType::BF16
         : rounding == Rounding::Q8_0 ? GgmlType::Q8_0
                                      : GgmlType::F32;
}

}  // namespace

Result<InterchangeModel> read_foreign_model(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return usage(path + ": no such file or folder");
  if (fs::is_directory(path, ignored)) {
    if (fs::exists(path + "/config.json", ignored)) return read_hugging_face(path);
    return usage(path +
                 ": holds no model: it has no config.json; name a folder of Hugging Face, or a "
                 ".gguf, .bin or .safetensors file");
  }
  if (path.ends_with(".safetensors")) {
    TRIREME_TRY(safetensors, SafetensorsFile::open(path));
    if (is_torchvision_resnet(safetensors.header())) return read_torchvision_resnet(path);
    const fs::path folder = fs::path(path).parent_path();
    return read_hugging_face(folder.empty() ? "." : folder.string());
  }
  TRIREME_TRY(file, InputFile::open(path));
  uint32_t magic = 0;
  if (file.bytes() >= int64_t{sizeof magic}) {
    TRIREME_TRY_DONE(file.read(0, std::as_writable_bytes(std::span(&magic, 1))));
  }
  if (magic == kGgufMagic) return read_gguf(path);
  if (magic == uint32_t{kLlmcModelMagic}) return read_llmc_model(path);
  return Error{ErrorKind::Damaged,
               path + ": neither a folder with config.json nor a file of a known format"};
}

InterchangeModel without_unsupported_modules(InterchangeModel model, ForeignFormat format) {
  const ModelSpec& spec = model.weights.model();
  const bool supports_modules = format == ForeignFormat::HuggingFace && foreign_family(spec).ok();
  if (spec.mtp_depth == 0 || supports_modules) return model;
  Weights weights(without_modules(spec));
  for (const ParamSpec& param : weights.params()) {
    const std::span<const float> values = model.weights.at(param.name);
    std::copy(values.begin(), values.end(), weights.at(param.name).begin());
  }
  model.weights = std::move(weights);
  model.config.mtp_depth = 0;
  model.notes.push_back(
      "the modules of multi-token prediction (model.mtp_depth) are left out: only a DeepSeek-V3 in "
      "the format of Hugging Face has a place for them, and generation does not use them");
  return model;
}

Status write_foreign_model(const InterchangeModel& model, const std::string& path,
                           const ForeignWriteOptions& options) {
  const bool holds_images = options.format == ForeignFormat::Torchvision;
  if (model.weights.model().reads_images() && !holds_images) {
    return usage("the model is a net of images: export it with --format torchvision");
  }
  if (options.format == ForeignFormat::Gguf) {
    const std::string name = fs::path(path).stem().string();
    return write_gguf(model, path, {ggml_type(options.rounding), name});
  }
  if (options.rounding == Rounding::Q8_0) {
    return Error{ErrorKind::Usage, "--dtype q8_0 needs --format gguf"};
  }
  if (options.format == ForeignFormat::Llmc) {
    if (options.rounding == Rounding::F16) {
      return Error{ErrorKind::Usage, "llm.c keeps models in fp32 or bf16, not in fp16"};
    }
    return write_llmc_model(model, path, file_dtype(options.rounding));
  }
  if (holds_images) {
    return write_torchvision_resnet(model, path, file_dtype(options.rounding));
  }
  return write_hugging_face(model, path, {file_dtype(options.rounding), options.max_shard_bytes});
}

}  // namespace trireme
