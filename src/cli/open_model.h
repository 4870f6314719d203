#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "api/loaded_model.h"
#include "base/result.h"
#include "cli/command_io.h"

namespace trireme {

// Matrices in blocks of whole numbers, as GGUF names them; the rest in the dtype of the model.
inline constexpr const char* kQuantizedPrecision = "q8_0";

struct OpenModelOptions {
  // A value of precision.compute, or kQuantizedPrecision; "": the dtype of the model.
  std::string precision;
  // The length in tokens of the longest text of the caller; 0: unknown. It limits the cache of a
  // model of another program, whose context may have millions of tokens.
  int64_t most_tokens = 0;
  int num_threads = 1;
};
// Opens the model at a path: a checkpoint, a run directory (its newest checkpoint), RUN_DIR/best,
// a checkpoint in a store (store://NAME/RUN/checkpoints/STEP), or a file or folder of another
// program.
Result<std::unique_ptr<LoadedModel>> open_model(const std::string& path,
                                                const OpenModelOptions& options,
                                                const CommandIo& io);

}  // namespace trireme
