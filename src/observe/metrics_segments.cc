#include "observe/metrics_segments.h"

#include <filesystem>

#include "base/file.h"

namespace trireme {

namespace fs = std::filesystem;

std::string metrics_part(const std::string& path, int64_t number) {
  const fs::path whole = path;
  const std::string name =
      whole.stem().string() + "." + std::to_string(number) + whole.extension().string();
  return (whole.parent_path() / name).string();
}

int64_t num_metrics_parts(const std::string& path) {
  int64_t number = 0;
  std::error_code ignored;
  while (fs::exists(metrics_part(path, number + 1), ignored)) ++number;
  return number;
}

Result<std::string> read_metrics(const std::string& path, int64_t most_bytes) {
  std::string all;
  for (int64_t number = 1, parts = num_metrics_parts(path); number <= parts; ++number) {
    TRIREME_TRY(text, read_text_file(metrics_part(path, number), most_bytes));
    all += text;
  }
  TRIREME_TRY(text, read_text_file(path, most_bytes));
  return all + text;
}

}  // namespace trireme
