#include "checkpoint/foreign_model.h"

#include <filesystem>

#include "checkpoint/hugging_face_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

DType file_dtype(Rounding rounding) {
  return rounding == Rounding::F16    ? DType::F16
         : rounding == Rounding::BF16 ? DType::BF16
                                      : DType::F32;
}

}  // namespace

Result<InterchangeModel> read_foreign_model(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored))
    return Error{ErrorKind::Damaged, path + ": no such file or folder"};
  if (fs::is_directory(path, ignored)) return read_hugging_face(path);
  if (path.ends_with(".safetensors")) {
    const fs::path folder = fs::path(path).parent_path();
    return read_hugging_face(folder.empty() ? "." : folder.string());
  }
  return Error{ErrorKind::Damaged,
               path + ": neither a folder with config.json nor a file of a known format"};
}

Status write_foreign_model(const InterchangeModel& model, const std::string& path,
                           const ForeignWriteOptions& options) {
  if (options.rounding == Rounding::Q8_0) {
    return Error{ErrorKind::Usage, "--dtype q8_0 is for --format gguf alone"};
  }
  return write_hugging_face(model, path, {file_dtype(options.rounding), options.max_shard_bytes});
}

}  // namespace trireme
