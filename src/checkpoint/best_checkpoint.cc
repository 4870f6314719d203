#include "checkpoint/best_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <tuple>

#include "base/file.h"

namespace trireme {

namespace fs = std::filesystem;

std::optional<double> validation_loss_of(const CheckpointInfo& info) {
  const auto step = info.optimizer_scalars.find(kValidationStep);
  const auto loss = info.optimizer_scalars.find(kValidationLoss);
  const auto end = info.optimizer_scalars.end();
  if (step == end || loss == end || step->second != double(info.step)) return std::nullopt;
  return loss->second;
}

std::vector<ValidatedCheckpoint> validated_checkpoints(const std::string& root, int64_t last) {
  std::vector<ValidatedCheckpoint> found;
  std::error_code error;
  for (fs::directory_iterator entry(root, error), end; !error && entry != end;
       entry.increment(error)) {
    const int64_t step = step_of_folder_name(entry->path().filename().string());
    if (step < 0 || step > last) continue;
    const Result<std::string> text = read_text_file(entry->path().string() + "/index.json");
    if (!text.ok()) continue;
    const Result<CheckpointIndex> index = parse_index(*text);
    if (!index.ok() || index->info.step != step) continue;
    const std::optional<double> loss = validation_loss_of(index->info);
    if (loss) found.push_back({entry->path().string(), step, *loss});
  }
  std::ranges::sort(found, {},
                    [](const ValidatedCheckpoint& of) { return std::tuple(of.loss, of.step); });
  return found;
}

}  // namespace trireme
