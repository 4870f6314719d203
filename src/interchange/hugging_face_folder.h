#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "interchange/interchange_model.h"

namespace trireme {

// A folder as the transformers library saves models: config.json, weights in safetensors files,
// tokenizer files (docs/formats/hugging_face.md).
Result<InterchangeModel> read_hugging_face(const std::string& folder);

struct HuggingFaceWriteOptions {
  DType dtype = DType::F32;
  int64_t max_shard_bytes = int64_t{5} << 30;  // more than that becomes several files and an index
};

// `folder` must not exist or be empty; it appears whole or not at all.
Status write_hugging_face(const InterchangeModel& model, const std::string& folder,
                          const HuggingFaceWriteOptions& options);

}  // namespace trireme
