#include "cli/path_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/input_file.h"
#include "checkpoint/find_checkpoint.h"

namespace trireme {

namespace fs = std::filesystem;

Status require_folder(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored) || names_best_checkpoint(path)) return Done{};
  if (fs::exists(path, ignored)) {
    return usage(path + ": a file; name the folder of a checkpoint or a run directory");
  }
  return Error{ErrorKind::Usage,
               path + ": no such folder; name a checkpoint or a run directory, such as runs/demo"};
}

Status require_run_folder(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return Done{};
  if (fs::exists(path, ignored)) return usage(path + ": a file; name the folder of a run");
  return usage(path + ": no such folder; name a run directory, such as runs/demo");
}

Status require_checkpoint(const std::string& path) {
  return is_url(path) ? Status(Done{}) : require_folder(path);
}

Status require_here(const std::string& path) {
  if (!is_url(path)) return Done{};
  return usage(
      fmt::format("{}: this command reads whole folders and files of other programs, which must be "
                  "on this machine; fetch it first: trireme store get {} {}",
                  path, path, fs::path(path).filename().string()));
}

Status require_adapters(const std::string& path) {
  TRIREME_TRY_DONE(require_here(path));
  std::error_code ignored;
  const auto has = [&](const char* name) { return fs::exists(path + "/" + name, ignored); };
  const std::string expected =
      "--adapters names a folder with adapter_config.json and adapter_model.safetensors, as PEFT "
      "writes it";
  if (!fs::exists(path, ignored)) {
    return usage(fmt::format("--adapters {}: no such folder; {}", path, expected));
  }
  if (!fs::is_directory(path, ignored)) {
    return usage(fmt::format("--adapters {}: a file; {}", path, expected));
  }
  if (has("adapter_config.json")) {
    if (has("adapter_model.safetensors")) return Done{};
    return usage(fmt::format(
        "--adapters {}: has adapter_config.json, but no adapter_model.safetensors{}; {}", path,
        has("adapter_model.bin") ? ", only adapter_model.bin, which may hold code: save it again "
                                   "with safe_serialization"
                                 : "",
        expected));
  }
  if (is_own_model(path)) {
    return usage(fmt::format(
        "--adapters {}: a checkpoint or a run of Trireme; {}. If it was trained with "
        "model.lora_rank, `trireme checkpoint export {} --format peft --out DIR` writes such a "
        "folder",
        path, expected, path));
  }
  if (has("config.json")) {
    return usage(
        fmt::format("--adapters {}: a whole model (config.json); {}. A model is imported "
                    "without --adapters",
                    path, expected));
  }
  return usage(fmt::format("--adapters {}: has no adapter_config.json; {}", path, expected));
}

bool is_own_model(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path + "/index.json", ignored) ||
         fs::is_directory(path + "/checkpoints", ignored) || has_checkpoints(path);
}

bool has_program(const std::string& program, const std::string& search_path) {
  std::error_code ignored;
  if (program.find('/') != std::string::npos) return fs::exists(program, ignored);
  size_t begin = 0;
  while (begin <= search_path.size()) {
    const size_t end = std::min(search_path.find(':', begin), search_path.size());
    if (fs::exists(fs::path(search_path.substr(begin, end - begin)) / program, ignored)) {
      return true;
    }
    begin = end + 1;
  }
  return false;
}

Status require_new(const std::string& out) {
  std::error_code ignored;
  const bool has_content = fs::is_directory(out, ignored) ? !fs::is_empty(out, ignored)
                                                          : fs::is_regular_file(out, ignored);
  if (!has_content) return Done{};
  return Error{ErrorKind::Usage, out + " exists: choose another --out, or remove it"};
}

}  // namespace trireme
