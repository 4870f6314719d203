#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "interchange/interchange_model.h"

namespace trireme {

// Reads a folder in which the transformers library saved a model: config.json, weights in
// safetensors files, tokenizer files (docs/formats/hugging_face.md).
Result<InterchangeModel> read_hugging_face(const std::string& folder);

struct HuggingFaceWriteOptions {
  DType dtype = DType::F32;
  // Larger models are split into several files with an index.
  int64_t max_shard_bytes = int64_t{5} << 30;
};

// `folder` must be absent or empty. It appears complete or not at all.
Status write_hugging_face(const InterchangeModel& model, const std::string& folder,
                          const HuggingFaceWriteOptions& options);

}  // namespace trireme
