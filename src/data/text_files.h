#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/input_file.h"
#include "base/result.h"
#include "data/byte_stream.h"

namespace trireme {

enum class TextFormat {
  Auto,       // JsonLines for .jsonl and .ndjson, else Text
  Text,       // each file is a document
  Lines,      // each line without its end is a document; empty lines are skipped
  JsonLines,  // each line is an object with the document in one field
  Chat,       // each line is a conversation in JSON (chat.h); blank lines are skipped
};

struct TextInput {
  // Files, folders (read recursively in the order of their names, without hidden files), or "-" for
  // standard input.
  std::vector<std::string> paths;
  TextFormat format = TextFormat::Auto;
  std::string field = "text";   // for JSON lines
  bool is_binary_read = false;  // binary files are read as bytes instead of refused
  // Opens names such as store://NAME/PATH. Empty: only files of this machine are read.
  OpenInput open_input = {};
};

struct TextFile {
  std::string path;  // "-": standard input
  TextFormat format = TextFormat::Text;
  int64_t bytes = -1;  // on disk; -1: unknown before the end
  Compression compression = Compression::None;
  uint64_t checksum = 0;  // of a file that is not on this machine (InputFile::known_checksum)
};

// Lists the files of an input. An error names files that are missing, empty or not text.
Result<std::vector<TextFile>> list_text_files(const TextInput& input);

// The error of a file or folder whose text cannot be read.
Error unreadable_text(const std::string& path, std::string_view why);

}  // namespace trireme
