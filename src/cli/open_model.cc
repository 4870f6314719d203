#include "cli/open_model.h"

#include <algorithm>
#include <filesystem>

#include "checkpoint/find_checkpoint.h"
#include "cli/path_checks.h"
#include "schema/run_config_choices.h"

namespace trireme {

Result<std::unique_ptr<LoadedModel>> open_model(const std::string& path,
                                                const OpenModelOptions& options,
                                                const CommandIo& io) {
  ModelPrecision precision{.is_quantized = options.precision == kQuantizedPrecision};
  if (!options.precision.empty() && !precision.is_quantized) {
    const ChoiceNames names = choice_names<ComputeChoice>();
    const auto named = std::find(names.begin(), names.end(), options.precision);
    precision.compute = compute_dtype(static_cast<ComputeChoice>(named - names.begin()));
  }
  std::error_code ignored;
  const bool is_foreign = std::filesystem::is_regular_file(path, ignored) ||
                          std::filesystem::exists(path + "/config.json", ignored);
  if (is_foreign && !is_own_model(path)) {
    return LoadedModel::load_foreign(
        path, {.num_threads = options.num_threads, .most_tokens = options.most_tokens}, precision);
  }
  TRIREME_TRY_DONE(require_checkpoint(path));
  TRIREME_TRY(checkpoint, find_checkpoint(path, io.open_input));
  return LoadedModel::load(checkpoint, options.num_threads, io.model_folders, precision);
}

}  // namespace trireme
