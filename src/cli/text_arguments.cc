#include "cli/text_arguments.h"

namespace trireme {

Argument text_argument(std::vector<std::string>& paths, bool required) {
  return {.name = "TEXT",
          .doc =
              "files or folders, or files of a store (store://NAME/PATH); - means standard "
              "input",
          .target = &paths,
          .required = required,
          .completion = Completion::File};
}

Option format_option(std::string& format) {
  return {.name = "format",
          .value_name = "FORMAT",
          .doc = "format of the text; auto chooses by the file names",
          .target = &format,
          .choices = {"auto", "text", "lines", "jsonl"}};
}

Option field_option(std::string& field) {
  return {.name = "field",
          .value_name = "NAME",
          .doc = "for JSON lines: the field that holds the text",
          .target = &field};
}

Option binary_option(bool& is_binary_read) {
  return {.name = "binary",
          .doc = "also read files that are not text, byte for byte",
          .target = &is_binary_read};
}

Option tokenizer_option(std::string& tokenizer) {
  return {.name = "tokenizer",
          .value_name = "FILE",
          .doc =
              "a tokenizer.json, also one of a store, a tokenizer file of another program, or "
              "the word byte",
          .target = &tokenizer,
          .completion = Completion::File};
}

}  // namespace trireme
