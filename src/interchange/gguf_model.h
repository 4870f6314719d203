#pragma once

#include <string>

#include "base/result.h"
#include "interchange/gguf.h"
#include "interchange/interchange_model.h"

namespace trireme {

// Reads a GGUF file of a GPT-2 or Llama with its tokenizer (docs/formats/gguf.md).
Result<InterchangeModel> read_gguf(const std::string& path);

struct GgufWriteOptions {
  GgmlType matrices = GgmlType::F16;  // norms, biases and positions are always F32
  std::string name = "trireme";       // name that programs display
};
Status write_gguf(const InterchangeModel& model, const std::string& path,
                  const GgufWriteOptions& options);

}  // namespace trireme
