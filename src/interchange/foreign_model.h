#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "interchange/interchange.h"
#include "interchange/interchange_model.h"

namespace trireme {

// The formats of other programs.
enum class ForeignFormat { HuggingFace, Gguf, Llmc };

// A folder or file of any of them; which one, its content says.
Result<InterchangeModel> read_foreign_model(const std::string& path);

struct ForeignWriteOptions {
  ForeignFormat format = ForeignFormat::HuggingFace;
  Rounding rounding = Rounding::None;
  int64_t max_shard_bytes = int64_t{5} << 30;  // HuggingFace
};
Status write_foreign_model(const InterchangeModel& model, const std::string& path,
                           const ForeignWriteOptions& options);

}  // namespace trireme
