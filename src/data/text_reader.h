#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "data/byte_stream.h"
#include "tokenizer/text_batch.h"
#include "tokenizer/unicode.h"

namespace trireme {

enum class TextFormat {
  Auto,       // JsonLines for .jsonl and .ndjson, else Text
  Text,       // a file is a document
  Lines,      // a line is a document, without its end; empty lines are none
  JsonLines,  // a line is an object with the document in one field
};

struct TextInput {
  // Files, folders (read recursively in the order of their names, hidden files left out), or "-"
  // for standard input.
  std::vector<std::string> paths;
  TextFormat format = TextFormat::Auto;
  std::string field = "text";  // of JSON lines
};

struct TextFile {
  std::string path;  // "-": standard input
  TextFormat format = TextFormat::Text;
  int64_t bytes = -1;  // on the disk; -1: not known before the end
  Compression compression = Compression::None;
};

// Reads documents in blocks, so memory does not depend on the input's size. Bytes are kept as they
// are, UTF-8 or not.
class TextReader {
 public:
  // Lists the files; refuses missing and empty ones, and those that are not text, by name. Files
  // that end in .gz or .zst are unpacked as they are read.
  static Result<TextReader> open(const TextInput& input);

  // Appends about block_bytes of text; false when there was nothing more. Refuses a line that is
  // not what the format says, and an input without any text.
  Result<bool> read(TextBatch& batch, int64_t block_bytes = int64_t{8} << 20);

  struct Report {
    int64_t num_documents = 0;
    int64_t text_bytes = 0;
    int64_t num_empty = 0;      // documents without text, left out
    int64_t num_invalid = 0;    // bytes that are not UTF-8, kept
    int64_t num_replaced = 0;   // halves of surrogate pairs in JSON, now U+FFFD
    std::string first_invalid;  // "notes.txt: byte 17"
  };
  // Where reading can go on: before `file`'s byte `offset`.
  struct Position {
    int64_t file = 0;
    int64_t offset = 0;
    int64_t line = 0;  // lines before the offset
  };
  // The place of the text that was read last but for unused_bytes, which are the last ones of the
  // batch and belong to an open document.
  Position position(int64_t unused_bytes) const;
  // Goes on there; `report` is that of the reading so far.
  Status seek(const Position& position, const Report& report);

  const Report& report() const { return report_; }
  // What a user should know about the text, a sentence each; empty when there is nothing.
  std::vector<std::string> notes() const;

  const std::vector<TextFile>& files() const { return files_; }
  int64_t total_bytes() const;  // of all files, unpacked; -1: not known
  bool can_seek() const;        // no file is standard input or a pipe

 private:
  TextReader(std::vector<TextFile> files, std::string field);

  Status open_file();
  void close_file();
  void check_utf8(std::string_view bytes, bool is_last);
  Status read_block(TextBatch& batch, size_t bytes);
  Status take_lines(TextBatch& batch, bool is_last);
  Status take_line(std::string_view line, TextBatch& batch);
  void end_document(TextBatch& batch, bool is_empty);

  std::vector<TextFile> files_;
  std::string field_;
  Report report_;

  size_t file_index_ = 0;  // the open file, or the next one
  std::unique_ptr<ByteStream> open_file_;
  int64_t offset_ = 0;       // bytes read of it, unpacked
  int64_t line_number_ = 0;  // lines taken of it
  std::string pending_;      // of Lines and JsonLines: read, but not taken
  size_t searched_ = 0;      // bytes of it without the end of a line
  Utf8Check utf8_;
};

}  // namespace trireme
