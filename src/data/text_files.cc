#include "data/text_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Returns "notes.jsonl" for "notes.jsonl.gz".
fs::path unpacked_name(const fs::path& path) {
  return compression_of(path.string()) == Compression::None ? path
                                                            : fs::path(path).replace_extension();
}

Status check_extension(const fs::path& path) {
  const std::string extension = path.extension().string();
  constexpr std::array kCompressed = {".xz", ".bz2", ".lz4", ".zip"};
  constexpr std::array kBinary = {".parquet", ".arrow", ".tok", ".bin", ".safetensors", ".gguf"};
  if (std::find(kCompressed.begin(), kCompressed.end(), extension) != kCompressed.end()) {
    return unreadable_text(
        path.string(),
        "has a compression that is not supported (.gz and .zst are); decompress it into a "
        "pipe and read \"-\"");
  }
  if (std::find(kBinary.begin(), kBinary.end(), extension) != kBinary.end()) {
    return unreadable_text(
        path.string(),
        "is not text; use text files or JSON lines, or read its bytes all the same "
        "with --binary");
  }
  return Done{};
}

bool is_hidden(const fs::path& name) { return name.string().starts_with('.'); }

// The files of a run directory or a checkpoint are text, but not text to train on.
Error a_run(const std::string& folder) {
  return unreadable_text(
      folder,
      "is a run or a checkpoint of Trireme, not text; name folders of text, or read "
      "its bytes all the same with --binary");
}

Status check_folder(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder / "config.resolved.toml", ignored)) return Done{};
  return a_run(folder.string());
}

TextFormat format_of(const fs::path& path, TextFormat wanted) {
  if (wanted != TextFormat::Auto) return wanted;
  const std::string extension = unpacked_name(path).extension().string();
  return extension == ".jsonl" || extension == ".ndjson" ? TextFormat::JsonLines : TextFormat::Text;
}

Status add_file(const fs::path& path, const TextInput& input, std::vector<TextFile>& files) {
  if (!input.is_binary_read) TRIREME_TRY_DONE(check_extension(unpacked_name(path)));
  std::error_code failure;
  if (!fs::is_regular_file(path, failure) && !failure) {
    return unreadable_text(path.string(),
                           "is no regular file; read a pipe as standard input: name it \"-\"");
  }
  const auto size = failure ? 0 : fs::file_size(path, failure);
  if (failure) return unreadable_text(path.string(), failure.message());
  files.push_back({path.string(), format_of(path, input.format), static_cast<int64_t>(size),
                   compression_of(path.string())});
  return Done{};
}

// Adds a file that is not on this machine.
Status add_named(const InputFile& file, const TextInput& input, std::vector<TextFile>& files) {
  const std::string& name = file.path();
  if (!input.is_binary_read) TRIREME_TRY_DONE(check_extension(unpacked_name(name)));
  files.push_back({name, format_of(name, input.format), file.bytes(), compression_of(name),
                   file.known_checksum()});
  return Done{};
}

// Empty files in a folder are common and harmless, so they are skipped.
Status add_folder(const fs::path& folder, const TextInput& input, std::vector<TextFile>& files) {
  if (!input.is_binary_read) TRIREME_TRY_DONE(check_folder(folder));
  std::vector<fs::path> paths;
  std::error_code failure;
  for (auto entry = fs::recursive_directory_iterator(folder, failure);
       !failure && entry != fs::recursive_directory_iterator(); entry.increment(failure)) {
    if (is_hidden(entry->path().filename())) {
      entry.disable_recursion_pending();
    } else if (entry->is_regular_file(failure) && entry->file_size(failure) > 0) {
      paths.push_back(entry->path());
    } else if (!input.is_binary_read && entry->is_directory(failure)) {
      TRIREME_TRY_DONE(check_folder(entry->path()));
    }
  }
  if (failure) return unreadable_text(folder.string(), failure.message());
  if (paths.empty()) return unreadable_text(folder.string(), "the folder has no file with text");
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) TRIREME_TRY_DONE(add_file(path, input, files));
  return Done{};
}

// Adds the files of a folder that is not on this machine, as add_folder() does. `listing` has their
// paths.
Status add_listed(const InputFile& listing, const TextInput& input, std::vector<TextFile>& files) {
  const std::string& name = listing.path();  // ends in "/"
  TRIREME_TRY(text, listing.read_all());
  std::vector<fs::path> paths;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const fs::path path(line);
    if (std::any_of(path.begin(), path.end(), is_hidden)) continue;
    const bool is_run = path.filename() == "config.resolved.toml";
    if (is_run && !input.is_binary_read) return a_run(name + path.parent_path().string());
    paths.push_back(path);
  }
  std::sort(paths.begin(), paths.end());
  const size_t known = files.size();
  for (const fs::path& path : paths) {
    TRIREME_TRY(file, open_named(name + path.string(), input.open_input));
    TRIREME_TRY_DONE(add_named(file, input, files));
    if (files.back().bytes == 0) files.pop_back();
  }
  if (files.size() == known) return unreadable_text(name, "the folder has no file with text");
  return Done{};
}

// Adds a file or a folder that is not on this machine.
Status add_elsewhere(const std::string& name, const TextInput& input,
                     std::vector<TextFile>& files) {
  const Result<InputFile> found = open_named(name, input.open_input);
  if (!found.ok()) {
    const bool may_be_folder =
        found.error().kind == ErrorKind::Usage && input.open_input && !name.ends_with('/');
    if (!may_be_folder) return found.error();
    const Result<InputFile> listing = input.open_input(name + "/");
    return listing.ok() ? add_listed(*listing, input, files) : Status(found.error());
  }
  if (name.ends_with('/')) return add_listed(*found, input, files);
  TRIREME_TRY_DONE(add_named(*found, input, files));
  if (files.back().bytes == 0) return unreadable_text(name, "the file is empty");
  return Done{};
}

}  // namespace

Error unreadable_text(const std::string& path, std::string_view why) {
  return damaged(fmt::format("{}: {}", path, why));
}

Result<std::vector<TextFile>> list_text_files(const TextInput& input) {
  if (input.paths.empty()) {
    return Error{ErrorKind::Usage,
                 "no text was named; name files, folders, or - for standard input"};
  }
  std::vector<TextFile> files;
  for (const std::string& path : input.paths) {
    std::error_code failure;
    if (path == "-") {
      files.push_back({path, format_of("", input.format), -1});
    } else if (is_url(path)) {
      TRIREME_TRY_DONE(add_elsewhere(path, input, files));
    } else if (fs::is_directory(path, failure)) {
      TRIREME_TRY_DONE(add_folder(path, input, files));
    } else if (!fs::exists(path, failure)) {
      if (!failure) return usage(path + ": no such file or folder");
      return unreadable_text(path, failure.message());
    } else {
      TRIREME_TRY_DONE(add_file(path, input, files));
      if (files.back().bytes == 0) return unreadable_text(path, "the file is empty");
    }
  }
  return files;
}

}  // namespace trireme
