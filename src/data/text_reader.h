#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "data/byte_stream.h"
#include "data/text_files.h"
#include "tokenizer/text_batch.h"
#include "tokenizer/unicode.h"

namespace trireme {

// Reads documents in blocks, so memory does not depend on the size of the input. Bytes are kept as
// they are, UTF-8 or not.
class TextReader {
 public:
  // Lists the files. An error names files that are missing, empty or not text. Files that end in
  // .gz or .zst are decompressed while they are read.
  static Result<TextReader> open(const TextInput& input);

  // Appends about block_bytes of text. Returns false if there was nothing more. An error if a line
  // does not have the format, or the input has no text at all.
  Result<bool> read(TextBatch& batch, int64_t block_bytes = int64_t{8} << 20);

  struct Report {
    int64_t num_documents = 0;
    int64_t text_bytes = 0;
    int64_t num_empty = 0;      // documents without text, skipped
    int64_t num_invalid = 0;    // bytes that are not UTF-8, kept
    int64_t num_replaced = 0;   // halves of surrogate pairs in JSON, replaced by U+FFFD
    std::string first_invalid;  // such as "notes.txt: byte 17"
  };
  // A place from which reading can resume: byte `offset` of `file`.
  struct Position {
    int64_t file = 0;
    int64_t offset = 0;
    int64_t line = 0;  // lines before the offset
  };
  // Returns the place after the text read so far, minus unused_bytes. These are the last bytes of
  // the batch and belong to an open document.
  Position position(int64_t unused_bytes) const;
  // Resumes reading at `position`. `report` is that of the reading so far.
  Status seek(const Position& position, const Report& report);

  // Of a document of TextFormat::Chat that the last read() has appended, counted from 0: where it
  // stands, such as "chat.jsonl:17".
  std::string place(size_t document) const;

  const Report& report() const { return report_; }
  // Notes for the user about the text, one sentence each; empty if there are none.
  std::vector<std::string> notes() const;

  const std::vector<TextFile>& files() const { return files_; }
  int64_t total_bytes() const;  // of all files, decompressed; -1: unknown
  bool can_seek() const;        // true if no file is standard input or a pipe

 private:
  TextReader(std::vector<TextFile> files, const TextInput& input);

  Status open_file();
  void close_file();
  Status check_text(std::string_view bytes) const;
  void check_utf8(std::string_view bytes, bool is_last);
  Status read_block(TextBatch& batch, size_t bytes);
  Status take_lines(TextBatch& batch, bool is_last);
  Status take_line(std::string_view line, TextBatch& batch);
  void end_document(TextBatch& batch, bool is_empty);

  std::vector<TextFile> files_;
  std::string field_;
  OpenInput open_input_;
  bool is_binary_read_;
  Report report_;

  size_t file_index_ = 0;  // index of the open file, or of the next one
  std::unique_ptr<InputStream> open_file_;
  int64_t offset_ = 0;       // decompressed bytes read from it
  int64_t line_number_ = 0;  // lines taken from it
  std::string pending_;      // for Lines and JsonLines: text read but not yet taken
  size_t searched_ = 0;      // its bytes known to contain no line end
  std::vector<std::pair<size_t, int64_t>> places_;  // of Chat: file and line of each document
  Utf8Check utf8_;
};

}  // namespace trireme
