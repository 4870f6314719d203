#pragma once

#include <string>

#include "base/result.h"
#include "interchange/gguf.h"
#include "interchange/interchange_model.h"

namespace trireme {

// A GGUF file of a GPT-2 or Llama, its tokenizer included (docs/formats/gguf.md).
Result<InterchangeModel> read_gguf(const std::string& path);

struct GgufWriteOptions {
  GgmlType matrices = GgmlType::F16;  // norms, biases and positions stay in F32
  std::string name = "trireme";       // what programs show
};
Status write_gguf(const InterchangeModel& model, const std::string& path,
                  const GgufWriteOptions& options);

}  // namespace trireme
