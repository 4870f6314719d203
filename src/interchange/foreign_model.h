#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "interchange/interchange.h"
#include "interchange/interchange_model.h"

namespace trireme {

// File formats of other programs.
enum class ForeignFormat { HuggingFace, Gguf, Llmc, Torchvision };

// Reads a file or folder in any of these formats. The format is recognised by the content.
Result<InterchangeModel> read_foreign_model(const std::string& path);

struct ForeignWriteOptions {
  ForeignFormat format = ForeignFormat::HuggingFace;
  Rounding rounding = Rounding::None;
  int64_t max_shard_bytes = int64_t{5} << 30;  // only for HuggingFace
};
// If the format has no place for the modules of multi-token prediction, returns the model without
// them and with a note that says so; otherwise returns the model as it is.
InterchangeModel without_unsupported_modules(InterchangeModel model, ForeignFormat format);
Status write_foreign_model(const InterchangeModel& model, const std::string& path,
                           const ForeignWriteOptions& options);

}  // namespace trireme
