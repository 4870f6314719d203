#include "data/text_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <utility>

#include "data/json_lines.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr size_t kReadBytes = size_t{1} << 20;
constexpr size_t kGreatestLineBytes = size_t{256} << 20;
constexpr int64_t kBytesLookedAt = int64_t{64} << 10;  // of each file, to recognise binary ones

Error unreadable(const std::string& path, std::string_view why) {
  return {ErrorKind::Damaged, fmt::format("{}: {}", path, why)};
}

std::string shown(const std::string& path) { return path == "-" ? "standard input" : path; }

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
    return unreadable(
        path.string(),
        "has a compression that is not supported (.gz and .zst are); decompress it into a "
        "pipe and read \"-\"");
  }
  if (std::find(kBinary.begin(), kBinary.end(), extension) != kBinary.end()) {
    return unreadable(path.string(),
                      "is not text; use text files or JSON lines, or read its bytes all the same "
                      "with --binary");
  }
  return Done{};
}

// Refuses a run directory or a checkpoint. Their files are text, but not text to train on.
Status check_folder(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder / "config.resolved.toml", ignored)) return Done{};
  return unreadable(folder.string(),
                    "is a run or a checkpoint of Trireme, not text; name folders of text, or read "
                    "its bytes all the same with --binary");
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
    return unreadable(path.string(),
                      "is no regular file; read a pipe as standard input: name it \"-\"");
  }
  const auto size = failure ? 0 : fs::file_size(path, failure);
  if (failure) return unreadable(path.string(), failure.message());
  files.push_back({path.string(), format_of(path, input.format), static_cast<int64_t>(size),
                   compression_of(path.string())});
  return Done{};
}

// Adds a file that is not on this machine. Its folders cannot be listed.
Status add_named(const std::string& name, const TextInput& input, std::vector<TextFile>& files) {
  if (!input.is_binary_read) TRIREME_TRY_DONE(check_extension(unpacked_name(name)));
  TRIREME_TRY(file, open_named(name, input.open_input));
  files.push_back({name, format_of(name, input.format), file.bytes(), compression_of(name),
                   file.known_checksum()});
  return Done{};
}

// Empty files in a folder are common and harmless, so they are skipped.
Status add_folder(const fs::path& folder, const TextInput& input, std::vector<TextFile>& files) {
  if (!input.is_binary_read) TRIREME_TRY_DONE(check_folder(folder));
  std::vector<fs::path> paths;
  std::error_code failure;
  const auto is_hidden = [](const fs::path& path) { return path.filename().string()[0] == '.'; };
  for (auto entry = fs::recursive_directory_iterator(folder, failure);
       !failure && entry != fs::recursive_directory_iterator(); entry.increment(failure)) {
    if (is_hidden(entry->path())) {
      entry.disable_recursion_pending();
    } else if (entry->is_regular_file(failure) && entry->file_size(failure) > 0) {
      paths.push_back(entry->path());
    } else if (!input.is_binary_read && entry->is_directory(failure)) {
      TRIREME_TRY_DONE(check_folder(entry->path()));
    }
  }
  if (failure) return unreadable(folder.string(), failure.message());
  if (paths.empty()) return unreadable(folder.string(), "the folder has no file with text");
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) TRIREME_TRY_DONE(add_file(path, input, files));
  return Done{};
}

Result<std::vector<TextFile>> list_files(const TextInput& input) {
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
      TRIREME_TRY_DONE(add_named(path, input, files));
      if (files.back().bytes == 0) return unreadable(path, "the file is empty");
    } else if (fs::is_directory(path, failure)) {
      TRIREME_TRY_DONE(add_folder(path, input, files));
    } else if (!fs::exists(path, failure)) {
      if (!failure) return usage(path + ": no such file or folder");
      return unreadable(path, failure.message());
    } else {
      TRIREME_TRY_DONE(add_file(path, input, files));
      if (files.back().bytes == 0) return unreadable(path, "the file is empty");
    }
  }
  return files;
}

}  // namespace

Result<TextReader> TextReader::open(const TextInput& input) {
  TRIREME_TRY(files, list_files(input));
  return TextReader(std::move(files), input);
}

TextReader::TextReader(std::vector<TextFile> files, const TextInput& input)
    : files_(std::move(files)),
      field_(input.field),
      open_input_(input.open_input),
      is_binary_read_(input.is_binary_read) {}

int64_t TextReader::total_bytes() const {
  int64_t total = 0;
  for (const TextFile& file : files_) {
    if (file.bytes < 0 || file.compression != Compression::None) return -1;
    total += file.bytes;
  }
  return total;
}

bool TextReader::can_seek() const {
  return std::all_of(files_.begin(), files_.end(),
                     [](const TextFile& file) { return file.bytes >= 0; });
}

Result<bool> TextReader::read(TextBatch& batch, int64_t block_bytes) {
  const size_t begin = batch.text.size();
  const size_t goal = begin + static_cast<size_t>(block_bytes);
  places_.clear();
  while (batch.text.size() < goal && file_index_ < files_.size()) {
    if (open_file_ == nullptr) TRIREME_TRY_DONE(open_file());
    TRIREME_TRY_DONE(read_block(batch, std::min(kReadBytes, goal - batch.text.size())));
  }
  report_.text_bytes += static_cast<int64_t>(batch.text.size() - begin);
  const bool is_over = file_index_ == files_.size();
  if (is_over && report_.text_bytes == 0) {
    return unreadable(shown(files_[0].path),
                      files_.size() == 1 ? "no text in it" : "no text in it and in the others");
  }
  return batch.text.size() > begin || !is_over;
}

Status TextReader::open_file() {
  const TextFile& file = files_[file_index_];
  auto opened = open_byte_stream(file.path, file.compression, open_input_);
  if (!opened.ok()) return unreadable(shown(file.path), opened.error().message);
  open_file_ = std::move(*opened);
  if (offset_ > 0) {
    const Status skipped = open_file_->skip(offset_);
    if (!skipped.ok()) return unreadable(shown(file.path), skipped.error().message);
  }
  utf8_ = Utf8Check(offset_);
  return Done{};
}

void TextReader::close_file() {
  open_file_.reset();
  offset_ = line_number_ = 0;
  ++file_index_;
}

// Refuses a file with a zero byte near its start, because UTF-8 text has none. `bytes` are those at
// offset_ of the file.
Status TextReader::check_text(std::string_view bytes) const {
  if (is_binary_read_ || offset_ >= kBytesLookedAt) return Done{};
  const size_t zero = bytes.substr(0, size_t(kBytesLookedAt - offset_)).find('\0');
  if (zero == std::string_view::npos) return Done{};
  return unreadable(
      shown(files_[file_index_].path),
      fmt::format("is binary, not text: byte {} is zero. Leave it out, read its bytes "
                  "all the same with --binary, or, if it is UTF-16, convert it with "
                  "iconv -f UTF-16 -t UTF-8",
                  offset_ + int64_t(zero)));
}

void TextReader::check_utf8(std::string_view bytes, bool is_last) {
  const int64_t known = utf8_.num_invalid();
  utf8_.add(bytes);
  if (is_last) utf8_.finish();
  if (utf8_.num_invalid() == known) return;
  if (report_.num_invalid == 0) {
    report_.first_invalid =
        fmt::format("{}: byte {}", shown(files_[file_index_].path), utf8_.first_invalid());
  }
  report_.num_invalid += utf8_.num_invalid() - known;
}

// Reads more of the open file and closes it at its end.
Status TextReader::read_block(TextBatch& batch, size_t bytes) {
  const TextFile& file = files_[file_index_];
  const bool is_text = file.format == TextFormat::Text;
  std::string& target = is_text ? batch.text : pending_;
  const size_t begin = target.size();
  target.resize(begin + bytes);
  const auto read = open_file_->read(std::span(target).subspan(begin));
  if (!read.ok()) return unreadable(shown(file.path), read.error().message);
  const size_t got = *read;
  target.resize(begin + got);
  TRIREME_TRY_DONE(check_text(std::string_view(target).substr(begin)));

  offset_ += static_cast<int64_t>(got);
  const bool is_last = got < bytes;
  check_utf8(std::string_view(target).substr(begin), is_last);
  if (is_text) {
    if (is_last) end_document(batch, offset_ == 0);
  } else {
    TRIREME_TRY_DONE(take_lines(batch, is_last));
  }
  if (is_last) close_file();
  return Done{};
}

Status TextReader::take_lines(TextBatch& batch, bool is_last) {
  size_t begin = 0;
  for (size_t end = pending_.find('\n', searched_); end != std::string::npos;
       begin = end + 1, end = pending_.find('\n', begin)) {
    TRIREME_TRY_DONE(take_line(std::string_view(pending_).substr(begin, end - begin), batch));
  }
  if (is_last && begin < pending_.size()) {
    TRIREME_TRY_DONE(take_line(std::string_view(pending_).substr(begin), batch));
    begin = pending_.size();
  }
  pending_.erase(0, begin);
  searched_ = pending_.size();
  if (pending_.size() <= kGreatestLineBytes) return Done{};
  return unreadable(
      shown(files_[file_index_].path),
      fmt::format("line {} has more than 256 MiB; is this a file of lines?", line_number_ + 1));
}

Status TextReader::take_line(std::string_view line, TextBatch& batch) {
  ++line_number_;
  const size_t begin = batch.text.size();
  if (line.ends_with('\r')) line.remove_suffix(1);
  const TextFormat format = files_[file_index_].format;
  const bool is_blank = line.find_first_not_of(" \t") == std::string_view::npos;
  if (format == TextFormat::Lines || (format == TextFormat::Chat && !is_blank)) {
    batch.text += line;
    if (format == TextFormat::Chat) places_.emplace_back(file_index_, line_number_);
  } else if (!is_blank) {
    auto read = append_json_string(line, field_, batch.text, report_.num_replaced);
    if (!read.ok()) {
      return with_context(read.error(),
                          fmt::format("{}:{}", shown(files_[file_index_].path), line_number_));
    }
  } else {
    return Done{};
  }
  end_document(batch, batch.text.size() == begin);
  return Done{};
}

void TextReader::end_document(TextBatch& batch, bool is_empty) {
  if (is_empty) {
    ++report_.num_empty;
    return;
  }
  ++report_.num_documents;
  batch.document_ends.push_back(batch.text.size());
}

std::string TextReader::place(size_t document) const {
  const auto& [file, line] = places_.at(document);
  return fmt::format("{}:{}", shown(files_[file].path), line);
}

TextReader::Position TextReader::position(int64_t unused_bytes) const {
  return {static_cast<int64_t>(file_index_),
          offset_ - unused_bytes - static_cast<int64_t>(pending_.size()), line_number_};
}

Status TextReader::seek(const Position& position, const Report& report) {
  open_file_.reset();
  file_index_ = static_cast<size_t>(position.file);
  offset_ = position.offset;
  line_number_ = position.line;
  report_ = report;
  pending_.clear();
  searched_ = 0;
  if (position.file < 0 || file_index_ > files_.size()) {
    return Error{ErrorKind::Usage, "a position behind the last file"};
  }
  return Done{};
}

std::vector<std::string> TextReader::notes() const {
  std::vector<std::string> notes;
  if (report_.num_invalid > 0) {
    notes.push_back(
        fmt::format("{} bytes are not UTF-8, the first at {}; they are kept as they are",
                    report_.num_invalid, report_.first_invalid));
  }
  if (report_.num_replaced > 0) {
    notes.push_back(fmt::format("{} halves of surrogate pairs in JSON strings became U+FFFD",
                                report_.num_replaced));
  }
  if (report_.num_empty > 0) {
    notes.push_back(fmt::format("{} documents without text were left out", report_.num_empty));
  }
  return notes;
}

}  // namespace trireme
