#pragma once

#include <string>

#include "base/result.h"
#include "interchange/interchange_model.h"

namespace trireme {

// The .bin files of llm.c with a GPT-2 (docs/formats/llmc.md): version 3 in F32, version 5 in BF16.

Result<InterchangeModel> read_llmc_model(const std::string& path);
// `dtype` must be F32 or BF16.
Status write_llmc_model(const InterchangeModel& model, const std::string& path, DType dtype);

}  // namespace trireme
