#include "data/text_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "data/json_lines.h"

namespace trireme {
namespace {

constexpr size_t kReadBytes = size_t{1} << 20;
constexpr size_t kGreatestLineBytes = size_t{256} << 20;
constexpr int64_t kBytesLookedAt = int64_t{64} << 10;  // of each file, to recognise binary ones

std::string shown(const std::string& path) { return path == "-" ? "standard input" : path; }

}  // namespace

Result<TextReader> TextReader::open(const TextInput& input) {
  TRIREME_TRY(files, list_text_files(input));
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
    return unreadable_text(shown(files_[0].path), files_.size() == 1
                                                      ? "no text in it"
                                                      : "no text in it and in the others");
  }
  return batch.text.size() > begin || !is_over;
}

Status TextReader::open_file() {
  const TextFile& file = files_[file_index_];
  auto opened = open_byte_stream(file.path, file.compression, open_input_);
  if (!opened.ok()) return unreadable_text(shown(file.path), opened.error().message);
  open_file_ = std::move(*opened);
  if (offset_ > 0) {
    const Status skipped = open_file_->skip(offset_);
    if (!skipped.ok()) return unreadable_text(shown(file.path), skipped.error().message);
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
  return unreadable_text(
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
  if (!read.ok()) return unreadable_text(shown(file.path), read.error().message);
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
  return unreadable_text(
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
